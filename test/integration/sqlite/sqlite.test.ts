import { execFile, execFileSync, spawnSync } from 'node:child_process';
import {
  chmodSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { beforeEach, describe, expect, it, jest } from '@jest/globals';
import { sqliteStore } from 'nestjs-idempotency/sqlite';
import type { RecordKey, StoreObserver } from '../../support/internals/core.js';
import { afterTest } from '../../support/jest/after-test.js';
import { isTestAll } from '../../support/jest/test-all.js';
import { TalkingProcess } from '../../support/processes/talking-process.js';
import { nodeSqlite } from '../../support/sqlite/node-sqlite.js';
import { describeSqlite, SetClock, SqliteFolder } from '../../support/sqlite/sqlite-file.js';
import {
  acquire,
  beginCommand,
  completeCommand,
  end,
  leaseOf,
  newRecordKey,
  newToken,
  watch,
} from '../../support/stores/commands.js';
import { typescriptNodeOptions } from '../../support/typescript/node-options.js';
import { until } from '../../support/waiting/until.js';

const run = promisify(execFile);
const worker = (name: string) => new URL(`support/${name}.ts`, import.meta.url);
const HOUR_MS = 3_600_000;

describe('sqliteStore', () => {
  it.each([
    ['without a path', {}, /sqliteStore: path is required/],
    ['with a path that is no text', { path: 7 }, /"path" must be a path/],
    ['in memory', { path: ':memory:' }, /use memoryStore\(\)/],
    ['with a URL', { path: 'file:records.db' }, /neither ":memory:" nor a URL/],
    ['with an unknown option', { path: 'a.db', sync: 'full' }, /"sync"/],
    ['with another word', { path: 'a.db', synchronous: 'off' }, /"full" or "normal"/],
    ['with a round too often', { path: 'a.db', deleteExpired: { interval: 1 } }, /interval/],
  ])('is refused %s', (_, options, message) => {
    expect(() => sqliteStore(options as never)).toThrow(message);
  });

  it('stops the start on a Node without SQLite, and says which Node has it', async () => {
    const script = `
      import { sqliteStore } from 'nestjs-idempotency/sqlite';
      await sqliteStore({ path: ${JSON.stringify(join(tmpdir(), 'never-made.db'))} }).open().catch(
        ({ code, message }) => { console.log(JSON.stringify({ code, message })); });`;
    const without = nodeSqlite === undefined ? [] : ['--no-experimental-sqlite'];
    const args = [...without, ...typescriptNodeOptions, '--input-type=module', '--eval', script];
    const { stdout } = await run(process.execPath, args, {
      env: { ...process.env, NODE_OPTIONS: '' },
    });
    expect(JSON.parse(stdout)).toEqual({
      code: 'idempotency_store_misconfigured',
      message: expect.stringContaining('Run Node 22.13 or later'),
    });
  });
});

describeSqlite('The file of sqliteStore', () => {
  let folder: SqliteFolder;

  beforeEach(() => {
    folder = new SqliteFolder();
    afterTest(() => {
      folder.remove();
    });
  });

  /** Closed after the test. */
  const opened = async (...how: Parameters<SqliteFolder['open']>) => {
    const store = folder.open(...how);
    await store.open();
    afterTest(() => store.close());
    return store;
  };
  const refusal = (message: string | RegExp) => ({
    code: 'idempotency_store_misconfigured',
    message: expect.stringMatching(message) as unknown,
  });

  it('is made at the start, for its user alone, and keeps what a restart finds', async () => {
    const store = folder.open();
    expect(await store.open()).toEqual([]);
    for (const name of readdirSync(folder.folder)) {
      expect([name, statSync(join(folder.folder, name)).mode & 0o777]).toEqual([name, 0o600]);
    }
    const lease = await acquire(store);
    await store.complete(lease, completeCommand());
    await store.close();
    // Nothing but the file itself is left of a store that was closed.
    expect(readdirSync(folder.folder)).toEqual(['records.db']);
    const restarted = await opened();
    const { recordKey } = lease;
    expect(await restarted.begin(beginCommand({ recordKey }))).toMatchObject({
      kind: 'completed',
      outcome: { header: '{"status":201}', body: new Uint8Array(Buffer.from('{"id":1}')) },
    });
  });

  it.each([
    ['of another program', 'CREATE TABLE users (id INTEGER)', 'another program'],
    ['with the mark of another program', 'PRAGMA application_id = 7', 'another program'],
    ['with a version of another program', 'PRAGMA user_version = 7', 'another program'],
  ])('is refused where it is a database %s, and unchanged', async (_, sql, message) => {
    const database = folder.database();
    database.exec(sql);
    database.close();
    const before = readFileSync(folder.path);
    await expect(folder.open().open()).rejects.toMatchObject(refusal(message));
    expect(readFileSync(folder.path).equals(before)).toBe(true);
  });

  it('is refused where a newer version made it, and unchanged', async () => {
    await (await opened()).close();
    const database = folder.database();
    database.exec('PRAGMA user_version = 99');
    database.close();
    const before = readFileSync(folder.path);
    await expect(folder.open().open()).rejects.toMatchObject(refusal(/newer version.*99/));
    expect(readFileSync(folder.path).equals(before)).toBe(true);
  });

  it('is refused where it is no database, and unchanged', async () => {
    const text = 'user,password\n'.repeat(1_000);
    writeFileSync(folder.path, text);
    await expect(folder.open().open()).rejects.toMatchObject(refusal('not a database'));
    expect(readFileSync(folder.path, 'utf8')).toBe(text);
  });

  it.each([
    ['a folder', (path: string) => mkdirSync(path)],
    ['a device', (path: string) => symlinkSync('/dev/null', path)],
    ['a pipe', (path: string) => execFileSync('mkfifo', [path])],
    ['a link to no file', (path: string) => symlinkSync('unmounted.db', path)],
  ])('is refused where there is %s instead, and nothing is made', async (_, make) => {
    make(folder.path);
    await expect(folder.open().open()).rejects.toMatchObject(refusal('link to no file'));
    expect(readdirSync(folder.folder)).toEqual(['records.db']);
  });

  it('is refused where its folder does not exist, and no folder is made', async () => {
    const store = folder.open({ path: join(folder.folder, 'unmounted', 'records.db') });
    await expect(store.open()).rejects.toMatchObject(refusal(/ENOENT.*mount that first/));
    expect(readdirSync(folder.folder)).toEqual([]);
  });

  it('is refused where the user of the process may not write it', async () => {
    await (await opened()).close();
    chmodSync(folder.path, 0o444);
    chmodSync(folder.folder, 0o755);
    const script = `
      import { sqliteStore } from 'nestjs-idempotency/sqlite';
      if (process.getuid() === 0) process.setuid(65534);
      await sqliteStore({ path: ${JSON.stringify(folder.path)} }).open().catch(
        ({ code, message }) => { console.log(JSON.stringify({ code, message })); });`;
    const { stdout } = await run(
      process.execPath,
      [...typescriptNodeOptions, '--input-type=module', '--eval', script],
      { env: { ...process.env, NODE_OPTIONS: '' } },
    );
    expect(JSON.parse(stdout)).toEqual(refusal('cannot be used: attempt to write a readonly'));
  });

  it('is missed at once where it is deleted or replaced, and found again where it is put back', async () => {
    const store = await opened();
    const lease = await acquire(store);
    await store.complete(lease, completeCommand());
    const { recordKey } = lease;
    const retry = () => store.begin(beginCommand({ recordKey, token: newToken() }));
    const aside = join(folder.folder, 'aside');
    renameSync(folder.path, aside);
    await expect(retry()).rejects.toMatchObject(refusal('deleted or replaced'));
    writeFileSync(folder.path, '');
    await expect(retry()).rejects.toMatchObject(refusal('deleted or replaced'));
    rmSync(folder.path);
    renameSync(aside, folder.path);
    expect((await retry()).kind).toBe('completed');
  });

  it.each([
    ['the log', '', '-wal'],
    ['its index', '', '-shm'],
    ['the log of the file that a link leads to', 'link-', '-wal'],
  ])('is missed at once where %s is deleted beside it', async (_, prefix, suffix) => {
    const path = join(folder.folder, `${prefix}records.db`);
    writeFileSync(folder.path, '');
    if (prefix !== '') symlinkSync(folder.path, path);
    const time = new SetClock();
    const store = await opened({ path }, time.clock);
    const { recordKey } = await acquire(store);
    const retry = () => store.begin(beginCommand({ recordKey, token: newToken() }));
    time.aheadMs = 1_000;
    // The folder has not changed for so long.
    expect((await retry()).kind).toBe('in_progress');
    const { ctimeMs } = statSync(folder.folder);
    await until(() => {
      writeFileSync(join(folder.folder, 'other'), '');
      rmSync(join(folder.folder, 'other'));
      return statSync(folder.folder).ctimeMs !== ctimeMs;
    });
    rmSync(`${folder.path}${suffix}`);
    // Another process would make one anew, find no record, and run the operation again.
    await expect(retry()).rejects.toMatchObject(refusal('deleted or replaced'));
    time.aheadMs = 2_000;
    await expect(retry()).rejects.toMatchObject(refusal('deleted or replaced'));
    time.aheadMs = 3_000;
    await expect(retry()).rejects.toMatchObject(refusal('deleted or replaced'));
  });

  it('that another process has locked holds up no other work, and fails a command in time', async () => {
    const store = await opened();
    const database = folder.database();
    database.exec('BEGIN IMMEDIATE');
    let turns = 0;
    const timer = setInterval(() => (turns += 1), 1);
    const begin = beginCommand({ timeoutMs: 400 });
    const late = store.begin(begin);
    await expect(late).rejects.toMatchObject({ code: 'idempotency_store_unavailable' });
    clearInterval(timer);
    // SQLite by itself would have waited in the thread of the event loop.
    expect(turns).toBeGreaterThan(5);
    const waiting = store.begin({ ...begin, timeoutMs: 20_000 });
    database.exec('COMMIT');
    database.close();
    expect((await waiting).kind).toBe('acquired');
  });

  it('that is locked at the start is reported, and used once it is free', async () => {
    await (await opened()).close();
    const database = folder.database();
    database.exec('BEGIN IMMEDIATE');
    const store = folder.open();
    afterTest(() => store.close());
    expect(await store.open()).toMatchObject([{ code: 'sqlite_unavailable', isOutage: true }]);
    database.exec('COMMIT');
    database.close();
    expect((await acquire(store)).fence).toBeGreaterThan(0);
  });

  it('a record that nobody can read fails alone', async () => {
    const store = await opened();
    const { recordKey } = await acquire(store);
    const database = folder.database();
    database.exec("UPDATE idempotency_records SET state = 'lost'");
    database.close();
    const [broken, other] = await Promise.allSettled([
      store.begin(beginCommand({ recordKey })),
      store.begin(beginCommand()),
    ]);
    expect(broken.status).toBe('rejected');
    expect(other).toMatchObject({ value: { kind: 'acquired' } });
  });

  it('notifies the waiting duplicates of its process once the outcome is stored', async () => {
    const store = await opened();
    for (const how of ['completed', 'released'] as const) {
      const lease = await acquire(store);
      const watcher = await watch(store, lease, 1_000);
      await store.inspect(lease.recordKey, { timeoutMs: 1_000 });
      expect(watcher.reported).toBe(0);
      await end[how](store, lease, true);
      expect(watcher.reported).toBe(1);
      watcher.stop?.();
    }
  });

  describe('deletes expired records', () => {
    const time = new SetClock();
    const rows = () => {
      const database = folder.database();
      const { records } = database
        .prepare('SELECT count(*) AS records FROM idempotency_records')
        .get()!;
      database.close();
      return records as number;
    };

    it('in batches, and no other', async () => {
      const store = await opened({ deleteExpired: false }, time.clock);
      const begins = Array.from({ length: 250 }, () => store.begin(beginCommand()));
      await Promise.all(begins);
      time.nowMs += 2 * HOUR_MS;
      const kept = await acquire(store);
      expect(await store.deleteExpired()).toBe(250);
      expect(store.deletedRecords).toBe(250);
      expect(rows()).toBe(1);
      expect(await store.inspect(kept.recordKey, { timeoutMs: 1_000 })).toBeDefined();
    });

    it('and gives their keys a higher fence, also after the clock stepped back', async () => {
      const store = await opened({ deleteExpired: false }, time.clock);
      const { recordKey, fence } = await acquire(store);
      time.nowMs += 2 * HOUR_MS;
      await store.deleteExpired();
      time.nowMs -= 4 * HOUR_MS;
      const again = await store.begin(beginCommand({ recordKey }));
      expect(again).toMatchObject({ kind: 'acquired', fence: fence + 1, attempt: 1 });
      const restored = newRecordKey();
      const lost = { recordKey: restored, token: newToken(), fence: 0 };
      await store.complete(lost, completeCommand({ whenGone: 'restore' }));
      const view = await store.inspect(restored, { timeoutMs: 1_000 });
      expect(view?.fence).toBeGreaterThanOrEqual(fence);
    });

    it.each([
      ['when it ends', 2 * HOUR_MS, 0],
      ['when it ends, where that is later than their begin said', HOUR_MS / 2, 0],
      ['minutes after its end, where it counts as absent', HOUR_MS + 300_000, 300_000],
    ])('that were completed, %s', async (_, recordRetentionMs, stayMs) => {
      const store = await opened({ deleteExpired: false }, time.clock);
      const begin = beginCommand({ recordRetentionMs });
      const { fence } = (await store.begin(begin)) as { fence: number };
      await store.complete(leaseOf(begin, fence), completeCommand({ retentionMs: HOUR_MS }));
      time.nowMs += HOUR_MS - 1;
      expect(await store.deleteExpired()).toBe(0);
      time.nowMs += 1;
      expect(await store.inspect(begin.recordKey, { timeoutMs: 1_000 })).toBeUndefined();
      if (stayMs > 0) expect(await store.deleteExpired()).toBe(0);
      time.nowMs += stayMs;
      expect(await store.deleteExpired()).toBe(1);
    });

    it('by itself, and reports the first of the rounds that fail', async () => {
      const warned = jest.fn<StoreObserver['warned']>();
      const observer = { warned, replyMismatched: () => undefined };
      const store = folder.open({ deleteExpired: { interval: '100ms' } }, time.clock);
      await store.open(observer);
      afterTest(() => store.close(observer));
      await acquire(store);
      time.nowMs += 2 * HOUR_MS;
      await until(() => rows() === 0);
      expect(store.deletedRecords).toBe(1);
      const aside = join(folder.folder, 'aside');
      renameSync(folder.path, aside);
      await until(() => warned.mock.calls.length > 0);
      renameSync(aside, folder.path);
      await acquire(store);
      time.nowMs += 2 * HOUR_MS;
      await until(() => store.deletedRecords === 2);
      expect(warned.mock.calls.map(([{ code }]) => code)).toEqual(['sqlite_deletion_failed']);
    });
  });

  /** Some systems let no user mount, not even for a process of its own. */
  const onSmallDisk = (directory: string, ...command: string[]) => {
    const script = 'mount -t tmpfs -o size=2m tmpfs "$0" && exec "$@"';
    return ['--user', '--map-root-user', '--mount', 'sh', '-c', script, directory, ...command];
  };
  const canMount = spawnSync('unshare', onSmallDisk(tmpdir(), 'true')).status === 0;

  (canMount ? it : it.skip)(
    'on a full disk refuses what does not fit, alone, and loses nothing',
    async () => {
      const node = [process.execPath, ...typescriptNodeOptions, fileURLToPath(worker('full-disk'))];
      const { stdout } = await run('unshare', onSmallDisk(folder.folder, ...node), {
        env: { ...process.env, NODE_OPTIONS: '', TEST_DIRECTORY: folder.folder },
      });
      expect(JSON.parse(stdout)).toEqual({
        kept: { kind: 'ok' },
        code: expect.stringMatching(/^idempotency_store_(unavailable|outcome_unknown)$/),
        isRejection: true,
        message: expect.stringMatching(/full/),
        small: { status: 'fulfilled', value: { kind: 'ok' } },
        retried: { kind: 'ok' },
        replays: ['completed', 'completed', 'completed'],
      });
    },
    60_000,
  );
});

describeSqlite('Processes on one file', () => {
  let folder: SqliteFolder;

  beforeEach(() => {
    folder = new SqliteFolder();
    afterTest(() => {
      folder.remove();
    });
  });

  it('run each operation once, also where four make the file and send eight duplicates at once', async () => {
    const keys = Array.from({ length: isTestAll ? 1_000 : 300 }, newRecordKey);
    const ledger = join(folder.folder, 'ledger');
    writeFileSync(ledger, '');
    const settings = { path: folder.path, ledger, keys, duplicates: 8 };
    const script = worker('racing-worker');
    const workers = Array.from(
      { length: 4 },
      () => new TalkingProcess<{ kinds: string[] }>(script, settings),
    );
    afterTest(() => Promise.all(workers.map((each) => each.kill())));
    await Promise.all(workers.map((each) => each.next()));
    for (const each of workers) each.goOn();
    const results = await Promise.all(workers.map((each) => each.next()));
    const effects = readFileSync(ledger, 'utf8').trim().split('\n');
    expect(effects.sort()).toEqual([...keys].sort());
    const kinds = results.flatMap((result) => result.kinds);
    expect(kinds).toHaveLength(keys.length * 4 * 8);
    expect(kinds.filter((kind) => kind === 'acquired, ok')).toHaveLength(keys.length);
    expect(new Set(kinds)).toEqual(new Set(['acquired, ok', 'in_progress', 'completed']));
    // Otherwise they did not race; on a busy machine one of them may come too late for all keys.
    const winners = results.filter((result) => result.kinds.includes('acquired, ok'));
    expect(winners.length).toBeGreaterThan(1);
  }, 120_000);

  it('lose no acknowledged outcome when one is killed in the middle of a thousand writes', async () => {
    const settings = { path: folder.path, writes: 1_000, atOnce: 4 };
    const writing = new TalkingProcess<{ recordKey: RecordKey }>(
      worker('writing-worker'),
      settings,
    );
    afterTest(() => writing.kill());
    const enough = 300 + Math.floor(Math.random() * 300);
    await writing.until(({ length }) => length >= enough);
    await writing.kill();
    const acknowledged = writing.messages.map(({ recordKey }) => recordKey);
    expect(acknowledged.length).toBeLessThan(settings.writes);
    const store = folder.open();
    expect(await store.open()).toEqual([]);
    afterTest(() => store.close());
    for (const recordKey of acknowledged) {
      expect(await store.begin(beginCommand({ recordKey }))).toMatchObject({
        kind: 'completed',
        outcome: { header: 'written', body: new Uint8Array(Buffer.from(recordKey)) },
      });
    }
  }, 120_000);
});
