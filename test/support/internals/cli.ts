export { runDoctor } from '../../../lib/cli/doctor.js';
export type { Finding } from '../../../lib/cli/doctor/finding.js';
export { evaluateClock, evaluateLatency } from '../../../lib/cli/doctor/measure.js';
export { ServerAddress } from '../../../lib/cli/doctor/server-address.js';
