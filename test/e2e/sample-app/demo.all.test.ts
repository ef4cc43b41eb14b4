import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { text } from 'node:stream/consumers';
import { describe, expect, it } from '@jest/globals';
import { scenarios } from '../../../sample-app/demo/http/scenarios/index.js';
import { typescriptNodeOptions } from '../../support/typescript/node-options.js';

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
