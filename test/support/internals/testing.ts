export { DrivenClock } from '../../../lib/testing/driven-clock.js';
