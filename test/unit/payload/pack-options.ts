import {
  OUTCOME,
  resolveGroup,
  type OutcomeOptions,
  type OwnerToken,
} from '../../support/internals/core.js';

/** The attempt of an outcome. */
export const OWNER = { token: 't'.repeat(22) as OwnerToken, retentionMs: 60_000 };

export type PackOptions = Pick<
  OutcomeOptions,
  'bodyRetention' | 'compression' | 'dictionaries' | 'encryption'
>;

export function optionsOf(given: PackOptions = {}) {
  return resolveGroup('outcome', OUTCOME, given);
}
