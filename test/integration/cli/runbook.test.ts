import { execFile } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from '@jest/globals';
import { IdempotencyService } from 'nestjs-idempotency';
import { postgresStore } from 'nestjs-idempotency/postgres';
import { abandon } from '../../support/engine/abandon.js';
import { blocksOf } from '../../support/docs/documented-blocks.js';
import { afterTest } from '../../support/jest/after-test.js';
import { callingApp, rejection } from '../../support/nest/calling-app.js';
import { builtPackage } from '../../support/packages/built-package.js';
import { usePostgres } from '../../support/postgres/use-postgres.js';
import { outsideEnvironment } from '../../support/processes/processes.js';
import { projectRoot } from '../../support/project-root.js';

const built = await builtPackage();
const postgres = usePostgres();

const page = readFileSync(join(projectRoot, 'docs/guides/did-this-payment-happen.md'), 'utf8');
const blocks = blocksOf(page);
const [find = '', complete = '', release = '', list = ''] = blocks
  .filter(({ language }) => language === 'sh')
  .map(({ text }) => text);

/** As `npx` does, in an application's folder. */
const NPX = 'npx() { shift; node "$CLI" "$@"; }\n';

interface Ran {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

describe('The commands of "Did this payment happen?"', () => {
  /** An attempt whose process died, and whose lease is over before a command can be there. */
  async function unknownOutcome() {
    const url = await postgres.newDatabase();
    const store = postgresStore({ url });
    await store.migrate();
    const service = 'shop';
    const { nest } = await callingApp({}, { store, service });
    afterTest(() => nest.close());
    const { key } = await abandon(store, 'payments.charge', randomUUID(), 1, { service });
    let charges = 0;
    const retry = () =>
      nest
        .get(IdempotencyService, { strict: false })
        .run({ operation: 'payments.charge', key, scope: 'alice' }, () => {
          charges += 1;
          return Promise.resolve('charged');
        });
    const env = {
      ...outsideEnvironment(),
      IDEMPOTENCY_STORE_URL: url,
      CLI: join(built, 'dist/esm/cli/main.js'),
      KEY: key,
      USER: 'mia',
    };
    const run = (...commands: string[]) =>
      new Promise<Ran>((resolve) => {
        execFile('sh', ['-c', NPX + commands.join('')], { env }, (error, stdout, stderr) => {
          const code = error === null ? 0 : Number(error.code);
          resolve({ code, stdout, stderr });
        });
      });
    return { key, run, retry, charges: () => charges };
  }

  const shapeOf = (text = '') =>
    text
      .replaceAll(/[-\w]{43}/g, 'RECORD')
      .replaceAll(/\d+ (?:ms|s|min)\b/g, 'TIME')
      .replaceAll(/:\d{16}/g, ':FENCE');

  it('find it, as the page shows, and settle it: no retry runs', async () => {
    const { key, run, retry, charges } = await unknownOutcome();
    const found = await run(find);
    expect(found).toMatchObject({ code: 0, stderr: '' });
    const shown = blocks.find(({ language }) => language === 'text')?.text;
    expect(shapeOf(found.stdout.trimEnd())).toBe(shapeOf(shown).trimEnd());
    const settled = await run(find, complete);
    expect(settled).toMatchObject({ code: 0 });
    expect(settled.stdout).toContain('complete: ok. Done.');
    expect(settled.stderr).toContain('"actor":"mia"');
    expect(settled.stdout + settled.stderr).not.toContain(key);
    expect(await rejection(retry())).toMatchObject({ code: 'idempotency_response_not_kept' });
    expect(charges()).toBe(0);
  });

  it('release it, and one retry charges', async () => {
    const { run, retry, charges } = await unknownOutcome();
    const act = complete.split('\n', 1)[0]!;
    expect(await run(find, `${act}\n`, release)).toMatchObject({ code: 0 });
    expect(await retry()).toBe('charged');
    expect(await retry()).toBe('charged');
    expect(charges()).toBe(1);
  });

  it('do nothing once a retry was there before, and say so', async () => {
    const { run, retry, charges } = await unknownOutcome();
    const { stdout } = await run(find);
    await retry();
    const again = `FOUND=$(cat <<'END'\n${stdout}END\n)\n`;
    const { code, stdout: said } = await run(again, complete);
    expect(code).toBe(1);
    expect(said).toContain('complete: changed.');
    expect(await retry()).toBe('charged');
    expect(charges()).toBe(1);
  });

  it('list nothing that is young', async () => {
    const { run } = await unknownOutcome();
    expect(await run(list)).toMatchObject({ code: 1, stdout: '', stderr: 'No record.\n' });
  });

  it('exit with 2 where the arguments are wrong, and with 3 where the store is away', async () => {
    const { run } = await unknownOutcome();
    expect(await run('npx nestjs-idempotency find --service shop')).toMatchObject({ code: 2 });
    const away = 'IDEMPOTENCY_STORE_URL=postgres://u:s3cr3t-word@127.0.0.1:1/x\n';
    const { code, stderr } = await run(away, list);
    expect(code).toBe(3);
    expect(stderr).toContain('idempotency_store_unavailable');
    expect(stderr).not.toContain('s3cr3t');
  });
});
