import { randomUUID } from 'node:crypto';
import { ConditionalStore, type RecordKey, type StoredRecord } from 'nestjs-idempotency/store';

interface Document {
  readonly version: string;
  /** Of a TTL index with `expireAfterSeconds: 0`. */
  readonly deleteAt: Date;
  readonly record: StoredRecord;
}

/** What the store uses of `Db` and `Collection` of the package `mongodb`, which this file then need not import. */
export interface MongoDatabase {
  command(command: { hello: 1 }): Promise<{ localTime?: Date }>;
}
export interface MongoCollection {
  findOne(filter: object, options: object): Promise<object | null>;
  insertOne(document: object, options: object): Promise<unknown>;
  replaceOne(filter: object, document: object, options: object): Promise<{ matchedCount: number }>;
}

/** Acknowledged writes survive a failover; a read sees all of them. */
const READ = {
  readPreference: 'primary',
  readConcern: { level: 'majority' },
  promoteBuffers: true,
};
/** Without `ignoreUndefined` the driver writes null for what is absent. */
const WRITE = { writeConcern: { w: 'majority', j: true }, ignoreUndefined: true };
const DUPLICATE_KEY = 11_000;

export class MongoStore extends ConditionalStore<string | undefined> {
  constructor(
    private readonly database: MongoDatabase,
    private readonly records: MongoCollection,
  ) {
    super();
  }

  async load(recordKey: RecordKey) {
    // Before the record: a lease is then counted from a moment too early, never from one too late.
    const { localTime } = await this.database.command({ hello: 1 });
    if (localTime === undefined) throw new Error('The server does not tell its time.');
    const found = (await this.records.findOne({ _id: recordKey }, READ)) as Document | null;
    return { nowUs: localTime.getTime() * 1_000, version: found?.version, record: found?.record };
  }

  async saveIf(recordKey: RecordKey, version: string | undefined, record: StoredRecord) {
    const outcome = 'outcome' in record && {
      outcome: { ...record.outcome, body: Buffer.from(record.outcome.body) },
    };
    const document: Document = {
      version: randomUUID(),
      deleteAt: new Date(record.expiresAt),
      record: { ...record, ...outcome },
    };
    if (version !== undefined) {
      const filter = { _id: recordKey, version };
      return (await this.records.replaceOne(filter, document, WRITE)).matchedCount === 1;
    }
    try {
      await this.records.insertOne({ _id: recordKey, ...document }, WRITE);
      return true;
    } catch (error) {
      if ((error as { code?: unknown }).code === DUPLICATE_KEY) return false;
      throw error;
    }
  }

  close() {
    return Promise.resolve();
  }
}
