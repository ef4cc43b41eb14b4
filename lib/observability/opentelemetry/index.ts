export type { OpenTelemetryMetricsOptions } from './metrics.js';
export { openTelemetry, type OpenTelemetryOptions } from './open-telemetry.js';
export type {
  SurroundedRequest,
  Surrounding,
  Telemetry,
  TelemetrySource,
} from '../../core/telemetry/telemetry.js';
