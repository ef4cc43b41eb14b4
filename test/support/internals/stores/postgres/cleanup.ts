export type { DeletionRound } from '../../../../../lib/stores/postgres/cleanup/delete-expired.js';
export {
  DeletionSchedule,
  type DeleteFrom,
} from '../../../../../lib/stores/postgres/cleanup/deletion-schedule.js';
export { DELETION } from '../../../../../lib/stores/postgres/cleanup/delete-expired.js';
