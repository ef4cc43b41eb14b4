export { runDoctor } from '../../../lib/cli/doctor.js';
export type { Finding } from '../../../lib/core/store/diagnosis/finding.js';
export { evaluateClock, evaluateLatency } from '../../../lib/core/store/diagnosis/measure.js';
export { ServerAddress } from '../../../lib/cli/doctor/server-address.js';
export { sqlOf } from '../../../lib/cli/schema.js';
