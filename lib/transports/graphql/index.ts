export { idempotentDirective } from './directive/idempotent-directive.js';
