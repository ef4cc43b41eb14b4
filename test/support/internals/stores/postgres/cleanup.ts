export type { DeletionRound } from '../../../../../lib/stores/postgres/delete-expired.js';
export { checkDeletionOptions } from '../../../../../lib/stores/postgres/deletion-options.js';
export {
  DeletionSchedule,
  type DeleteFrom,
} from '../../../../../lib/stores/postgres/deletion-schedule.js';
