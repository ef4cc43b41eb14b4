import { WRITER, type JournalWriter } from '../../core/store/journal-options.js';
import type { Duration, InMilliseconds } from '../../core/options/duration.js';
import { duration, type Defaulted, type Group } from '../../core/options/option-schema.js';
import { JOURNAL_TABLE } from './sql/table-name.js';

/** Options of the journal of `postgresStore`: the history of records, in a table of its own. */
export interface PostgresJournalOptions extends JournalWriter {
  /**
   * The table, in the schema of the records. Its history is in `{table}_migrations`. At most 50 bytes.
   * @defaultValue 'idempotency_journal'
   */
  readonly table?: string | undefined;

  /**
   * How long entries are kept. Who deletes expired records deletes them: see `deleteExpired`.
   * @defaultValue '90d', from '1h' to '36500d'
   */
  readonly retention?: Duration | undefined;
}

export type PostgresJournal = InMilliseconds<Defaulted<PostgresJournalOptions>>;

export const JOURNAL: Group<PostgresJournalOptions, PostgresJournal> = {
  fields: {
    ...WRITER,
    table: JOURNAL_TABLE.table,
    retention: duration({ default: '90d', min: '1h', max: '36500d' }),
  },
  isSwitched: true,
};
