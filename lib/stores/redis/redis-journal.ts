import { isOfRequest } from '../../core/record/record-key.js';
import type { RecordKey } from '../../core/record/record.js';
import {
  checkService,
  checkWriter,
  WRITER,
  type JournalWriter,
} from '../../core/store/journal-options.js';
import { integer, type Defaulted, type Group } from '../../core/options/option-schema.js';

/** Options of the journal of `redisStore`: the history of records, in a stream. */
export interface RedisJournalOptions extends JournalWriter {
  /** About how many entries the stream keeps: the oldest go. @defaultValue 100_000, from 1_000 to 1_000_000_000 */
  readonly maxLength?: number | undefined;
}

type Resolved = Defaulted<RedisJournalOptions>;

export const JOURNAL: Group<RedisJournalOptions, Resolved> = {
  fields: {
    ...WRITER,
    maxLength: integer({ default: 100_000, min: 1_000, max: 1_000_000_000 }),
  },
  isSwitched: true,
};

/** The steps that may change a record. */
const STEPS: ReadonlySet<string> = new Set(['begin', 'complete', 'release', 'amend']);

/** The journal of a store in Redis, whose entries lua/shared/journal.lua adds. */
export class Journal {
  /** How many entries are missing, of changes that are stored. */
  missed = 0;
  private readonly by: string;

  /** @param factory - of the store. @param stream - its key. @throws {@link IdempotencyOptionsError} when it does not say who writes it. */
  constructor(
    private readonly factory: string,
    readonly stream: string,
    private readonly options: Resolved,
  ) {
    checkWriter(factory, options);
    const { service, version } = options;
    this.by = `${service} ${version}`;
  }

  /** @throws {@link IdempotencyOptionsError} if the store is opened by an application with another name. */
  checkService(service: string | undefined): void {
    checkService(this.factory, this.options, service);
  }

  /** The last argument of a step; undefined of one that takes none. Probes have no entries. */
  argumentOf(step: string, recordKey: RecordKey): string | undefined {
    if (!STEPS.has(step)) return undefined;
    return isOfRequest(recordKey) ? this.by : '';
  }
}
