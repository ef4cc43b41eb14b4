import { parseArgs } from 'node:util';
import type { Finding, Verdict } from '../core/store/diagnosis/finding.js';
import { mysqlStore } from '../stores/mysql/index.js';
import { postgresStore } from '../stores/postgres/index.js';
import { checksOfBlobs, type BlobChecks } from './doctor/blobs.js';
import { diagnose, diagnoseRedis } from './doctor/redis.js';
import { ServerAddress } from './servers/server-address.js';
import { UsageError } from './servers/failures.js';

/**
 * @param args - after the command.
 * @returns the exit code.
 */
export async function runDoctor(args: string[], print: (text: string) => void): Promise<number> {
  const { values, positionals } = parseArgs({
    args,
    // Otherwise the error repeats them, and one may be a URL with a password.
    allowPositionals: true,
    options: {
      redis: { type: 'string' },
      'key-prefix': { type: 'string' },
      sentinel: { type: 'string' },
      postgres: { type: 'string' },
      mysql: { type: 'string' },
      schema: { type: 'string' },
      table: { type: 'string' },
      blobs: { type: 'string' },
      'blobs-schema': { type: 'string' },
      'blobs-table': { type: 'string' },
      'no-prepared-statements': { type: 'boolean', default: false },
      json: { type: 'boolean', default: false },
    },
  });
  const { redis, postgres, mysql, sentinel, schema, table, blobs, json } = values;
  const preparedStatements = !values['no-prepared-statements'];
  const stores: BlobChecks[] = [];
  if (redis !== undefined) {
    const address = new ServerAddress(redis, 6379);
    const keyPrefix = values['key-prefix'];
    stores.push({ findings: diagnoseRedis({ url: redis, keyPrefix, sentinel }, address), address });
  }
  if (postgres !== undefined) {
    const address = new ServerAddress(postgres, 5432);
    const store = postgresStore({ url: postgres, schema, table, preparedStatements });
    stores.push({ findings: diagnose(store), address });
  }
  if (mysql !== undefined) {
    const address = new ServerAddress(mysql, 3306);
    stores.push({ findings: diagnose(mysqlStore({ url: mysql, table })), address });
  }
  if (stores.length > 1 || (stores.length === 0 && blobs === undefined) || positionals.length > 0) {
    throw new UsageError(
      'Pass either --redis URL, --postgres URL or --mysql URL, or --blobs URL, or both.',
    );
  }
  if (blobs !== undefined) {
    const names = { schema: values['blobs-schema'], table: values['blobs-table'] };
    const checks = checksOfBlobs(blobs, { ...names, preparedStatements });
    // Does not repeat it: it may be a URL with a password.
    if (checks === undefined) throw new UsageError(NO_BLOBS);
    stores.push(checks);
  }
  const all: Finding[] = [];
  for (const { findings, address } of stores) {
    for await (const found of findings) {
      const message = address?.redact(found.message) ?? found.message;
      const finding = { ...found, message };
      all.push(finding);
      if (!json) print(lineOf(finding));
    }
  }
  print(json ? `${JSON.stringify(all, undefined, 2)}\n` : summaryOf(all));
  return all.every(({ verdict }) => verdict === 'ok') ? 0 : 1;
}

const NO_BLOBS =
  'Write --blobs as file:///folder, s3://bucket/prefix, or postgres://user:password@host:port/database.';

function lineOf({ check, verdict, message }: Finding): string {
  return `${verdict.padEnd(8)} ${check.padEnd(13)} ${message}\n`;
}

function summaryOf(findings: readonly Finding[]): string {
  const count = (verdict: Verdict) =>
    findings.filter((finding) => finding.verdict === verdict).length;
  return `\n${count('ok')} ok, ${count('warning')} to look at, ${count('error')} wrong.\n`;
}
