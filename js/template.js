/* template: the part of the worker for chat templates, with Jinja (platform/files.js). */
import { templateOf } from './engine/template.js';
import { offer } from './platform/files.js';

export { templateOf };
offer('template', { templateOf });
