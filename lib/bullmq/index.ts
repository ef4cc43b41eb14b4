export { delayJob, type DelayableJob } from './delay-job.js';
