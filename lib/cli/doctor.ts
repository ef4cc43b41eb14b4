import { parseArgs } from 'node:util';
import type { Finding, Verdict } from '../core/store/diagnosis/finding.js';
import { postgresStore } from '../stores/postgres/index.js';
import { diagnose, diagnoseRedis } from './doctor/redis.js';
import { ServerAddress } from './doctor/server-address.js';
import { UsageError } from './usage.js';

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
      schema: { type: 'string' },
      table: { type: 'string' },
      'no-prepared-statements': { type: 'boolean', default: false },
      json: { type: 'boolean', default: false },
    },
  });
  const { redis, postgres, sentinel, schema, table, json } = values;
  if ((redis === undefined) === (postgres === undefined) || positionals.length > 0) {
    throw new UsageError('Pass either --redis URL or --postgres URL.');
  }
  const preparedStatements = !values['no-prepared-statements'];
  const url = redis ?? postgres ?? '';
  const address = new ServerAddress(url, redis === undefined ? 5432 : 6379);
  const findings =
    redis === undefined
      ? diagnose(postgresStore({ url, schema, table, preparedStatements }))
      : diagnoseRedis({ url, keyPrefix: values['key-prefix'], sentinel }, address);
  const all: Finding[] = [];
  for await (const found of findings) {
    const finding = { ...found, message: address.redact(found.message) };
    all.push(finding);
    if (!json) print(lineOf(finding));
  }
  print(json ? `${JSON.stringify(all, undefined, 2)}\n` : summaryOf(all));
  return all.every(({ verdict }) => verdict === 'ok') ? 0 : 1;
}

function lineOf({ check, verdict, message }: Finding): string {
  return `${verdict.padEnd(8)} ${check.padEnd(13)} ${message}\n`;
}

function summaryOf(findings: readonly Finding[]): string {
  const count = (verdict: Verdict) =>
    findings.filter((finding) => finding.verdict === verdict).length;
  return `\n${count('ok')} ok, ${count('warning')} to look at, ${count('error')} wrong.\n`;
}
