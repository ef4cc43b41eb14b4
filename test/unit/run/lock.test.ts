import { spawnSync } from 'node:child_process';
import { mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { builtPackage } from '../../support/packages/built-package.js';
import { withLock } from '../../support/processes/with-lock.js';

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'lock-'));
});
afterEach(() => {
  rmSync(folder, { recursive: true });
});

describe('What is built once for all processes', () => {
  it('is built by one after the other', async () => {
    const steps: string[] = [];
    const make = (name: string) =>
      withLock(join(folder, 'lock'), async () => {
        steps.push(`${name} begins`);
        await new Promise(setImmediate);
        steps.push(`${name} ends`);
      });
    await Promise.all([make('a'), make('b')]);
    const [first, second] = steps[0] === 'a begins' ? ['a', 'b'] : ['b', 'a'];
    expect(steps).toEqual([
      `${first} begins`,
      `${first} ends`,
      `${second} begins`,
      `${second} ends`,
    ]);
    expect(readdirSync(folder)).toEqual([]);
  });

  it('is built even where a process has ended while it built it', async () => {
    const { pid } = spawnSync(process.execPath, ['--version']);
    writeFileSync(join(folder, 'lock'), String(pid));
    expect(await withLock(join(folder, 'lock'), () => Promise.resolve('made'))).toBe('made');
  });

  it('is the package, for all that request it at the same time', async () => {
    const [first, ...others] = await Promise.all([builtPackage(), builtPackage(), builtPackage()]);
    expect(others).toEqual([first, first]);
    expect(readdirSync(join(first, 'dist/cjs'))).toContain('index.js');
  });
});
