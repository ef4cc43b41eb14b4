export { runDoctor } from '../../../lib/cli/doctor.js';
export type { Finding } from '../../../lib/core/store/diagnosis/finding.js';
export { evaluateClock, evaluateLatency } from '../../../lib/core/store/diagnosis/measure.js';
export { ServerAddress } from '../../../lib/cli/servers/server-address.js';
export { runMigrate, runStatus, sqlOf } from '../../../lib/cli/schema.js';
export { runOperator } from '../../../lib/cli/operate.js';
export { ServerFailure, UsageError } from '../../../lib/cli/servers/failures.js';
