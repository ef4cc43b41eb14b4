export { LogReporter } from '../../../lib/nest/log-reporter.js';
