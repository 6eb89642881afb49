/* template: a part of the worker (platform/files.js), loaded with the first messages: chat templates, and Jinja. */
import { ChatTemplate } from './engine/template.js';
import { offer } from './platform/files.js';

export { ChatTemplate };
offer('template', { ChatTemplate });
