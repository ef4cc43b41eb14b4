import { execFile } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { describe, expect, it } from '@jest/globals';
import { installNodes } from '../../package/support/node-versions.js';
import { afterTest } from '../../support/jest/after-test.js';
import { projectRoot } from '../../support/project-root.js';
import { hasSqlite } from '../../support/sqlite/sqlite-file.js';

/** What is skipped on a Node without SQLite. */
const FILES = [
  'test/integration/sqlite/sqlite.test.ts',
  'test/integration/differential/sqlite.test.ts',
  'test/conformance/stores.test.ts',
];

describe('The tests of sqliteStore', () => {
  (hasSqlite ? it.skip : it)(
    'pass on a newer Node than this one, which has no SQLite',
    async () => {
      const folder = mkdtempSync(join(tmpdir(), 'idempotency-newer-node-'));
      afterTest(() => {
        rmSync(folder, { recursive: true, force: true });
      });
      const nodes = await installNodes(folder);
      const node = join(nodes.get(24)!, 'node');
      const jest = join(projectRoot, 'node_modules/jest/bin/jest.js');
      const args = ['--selectProjects', 'push', '--testNamePattern', '[Ss]qlite|SQLite|one file'];
      const report = join(folder, 'report.json');
      const out = ['--json', '--outputFile', report, '--runTestsByPath', ...FILES];
      await promisify(execFile)(node, [jest, ...args, ...out], {
        cwd: projectRoot,
        env: {
          ...process.env,
          NODE_OPTIONS: '--experimental-vm-modules --disable-warning=ExperimentalWarning',
        },
      });
      const { numPassedTests } = JSON.parse(readFileSync(report, 'utf8')) as {
        readonly numPassedTests: number;
      };
      expect(numPassedTests).toBeGreaterThan(200);
    },
    900_000,
  );
});
