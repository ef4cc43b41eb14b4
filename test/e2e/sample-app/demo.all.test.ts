import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { text } from 'node:stream/consumers';
import { mkdtempSync, readdirSync, realpathSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { scenarios } from '../../../sample-app/demo/http/scenarios/index.js';
import { typescriptNodeOptions } from '../../support/typescript/node-options.js';
import { until } from '../../support/waiting/until.js';
import { processesIn } from '../../support/processes/processes.js';

const DEMO = fileURLToPath(new URL('../../../sample-app/demo/http/main.ts', import.meta.url));

describe('npm run demo', () => {
  it('succeeds in every scenario', async () => {
    const demo = spawn(process.execPath, [...typescriptNodeOptions, DEMO], {
      stdio: ['ignore', 'pipe', 'inherit'],
      timeout: 170_000,
    });
    const [output, [exitCode]] = await Promise.all([text(demo.stdout), once(demo, 'exit')]);

    expect(output).not.toContain('✗');
    for (const { title, lesson } of scenarios) {
      expect(output).toMatch(new RegExp(`^${title} .* ✓ ${lesson}$`, 'm'));
    }
    expect(exitCode).toBe(0);
  }, 180_000);
});

const DEMO_OF_MESSAGES = fileURLToPath(
  new URL('../../../sample-app/demo/messages/main.ts', import.meta.url),
);

describe('npm run demo:messages', () => {
  let folder: string;
  let demo: ChildProcess;

  beforeEach(() => {
    folder = realpathSync(mkdtempSync(join(tmpdir(), 'idempotency-demo-')));
  });
  afterEach(async () => {
    const isGone = demo.exitCode !== null || demo.signalCode !== null;
    if (!isGone) {
      demo.kill();
      await once(demo, 'exit');
    }
    rmSync(folder, { recursive: true, force: true });
  });

  /** All its processes have their working directory in the folder, and write only there. */
  function start(settings: Readonly<Record<string, string>>) {
    const child = spawn(process.execPath, [...typescriptNodeOptions, DEMO_OF_MESSAGES], {
      cwd: folder,
      env: { ...process.env, TMPDIR: folder, ...settings },
      stdio: ['ignore', 'pipe', 'pipe'],
      timeout: 100_000,
    });
    demo = child;
    const [output, progress] = [text(child.stdout), text(child.stderr)];
    return { child, output, progress, exited: once(child, 'exit') };
  }

  it('charges every order once, and leaves nothing behind', async () => {
    const { output, progress, exited } = start({ DEMO_ORDERS: '60', DEMO_SEED: '7' });
    const [exitCode] = await exited;

    const printed = await output;
    const count = (row: string) => Number(new RegExp(`^ *${row} +(\\d+)`, 'm').exec(printed)?.[1]);
    expect(printed).toMatch(/^charges per order +1×60$/m);
    expect(count('messages published')).toBeGreaterThan(60);
    expect(count('of these redelivered')).toBeGreaterThan(0);
    expect(count('replayed')).toBeGreaterThan(0);
    expect(printed).toMatch(/^✓ every order was charged once$/m);
    expect(printed).not.toContain('✗');
    expect(await progress).toMatch(/^\d+ of 60 orders charged, after \d+ deliveries$/m);
    expect(exitCode).toBe(0);
    expect(processesIn(folder)).toEqual([]);
    expect(readdirSync(folder)).toEqual([]);
  }, 110_000);

  it('ends with all its processes when it is interrupted during the start', async () => {
    const { child, exited } = start({});
    const [itself, redis, register, broker] = [1, 1, 1, 1];
    await until(() => processesIn(folder).length >= itself + redis + register + broker, 30_000);
    child.kill('SIGINT');
    expect(await exited).toEqual([1, null]);
    await until(() => processesIn(folder).length === 0);
    expect(readdirSync(folder)).toEqual([]);
  }, 60_000);
});
