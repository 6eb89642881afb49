/* template: worker code for chat templates (Jinja), imported on first use (platform/files.js). */
import { templateOf } from './engine/template.js';
import { offer } from './platform/files.js';

export { templateOf };
offer('template', { templateOf });
