/* template: a part of the worker (platform/files.js), loaded with the first messages: chat templates, and Jinja. */
import { templateOf } from './engine/template.js';
import { offer } from './platform/files.js';

export { templateOf };
offer('template', { templateOf });
