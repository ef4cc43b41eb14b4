export { Telemetries } from '../../../../lib/core/telemetry/telemetries.js';
