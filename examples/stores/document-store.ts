import { randomUUID } from 'node:crypto';
import { ConditionalStore, type RecordKey, type StoredRecord } from 'nestjs-idempotency/store';
import type { Pool } from 'pg';

type Row = Readonly<Record<'now' | 'version' | 'document', string | null>>;
const SELECT = `
  SELECT (extract(epoch FROM statement_timestamp()) * 1000000)::bigint AS now, version, document
  FROM (SELECT) AS always LEFT JOIN documents ON key = $1`;
const INSERT =
  'INSERT INTO documents SELECT $1, $2, $3 WHERE $4::uuid IS NULL ON CONFLICT DO NOTHING';
const UPDATE = 'UPDATE documents SET version = $2, document = $3 WHERE key = $1 AND version = $4';

const encode = (body: Uint8Array) => Buffer.from(body).toString('base64'); // JSON has no bytes
const revive = (name: string, value: string) =>
  name === 'body' ? Buffer.from(value, 'base64') : value;

export class DocumentStore extends ConditionalStore<string | null> {
  constructor(private readonly pool: Pool) {
    super();
  }

  async load(recordKey: RecordKey) {
    const { now, version, document } = (await this.pool.query<Row>(SELECT, [recordKey])).rows[0]!;
    const record = document === null ? undefined : (JSON.parse(document, revive) as StoredRecord);
    return { nowUs: Number(now), version, record };
  }

  async saveIf(recordKey: RecordKey, version: string | null, record: StoredRecord) {
    const outcome = 'outcome' in record ? record.outcome : undefined;
    const body = outcome && { outcome: { ...outcome, body: encode(outcome.body) } };
    const values = [recordKey, randomUUID(), JSON.stringify({ ...record, ...body }), version];
    return (await this.pool.query(version === null ? INSERT : UPDATE, values)).rowCount === 1;
  }

  close() {
    return Promise.resolve();
  }
}
