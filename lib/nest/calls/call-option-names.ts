import { PROTOCOL_DEFAULTS } from '../../core/operation/options.js';

/** The options that every call of code that handles no request may have. */
export const CALL_OPTION_NAMES: readonly string[] = [
  ...Object.keys(PROTOCOL_DEFAULTS),
  'operation',
  'key',
  'scope',
  'payload',
  'keep',
  'codec',
];
