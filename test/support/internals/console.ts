export { CONSOLE_OPTIONS } from '../../../lib/console/console-options.js';
