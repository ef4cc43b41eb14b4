import { execFile } from 'node:child_process';
import { cp, mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { projectRoot } from './project-root.js';

/** Files of a made-up project: path → text. */
export type Tree = Readonly<Record<string, string>>;

/** Writes a project that consists of `tree` and this project's own lint configuration. */
export async function plant(tree: Tree): Promise<{ root: string; remove: () => Promise<void> }> {
  const root = await mkdtemp(join(tmpdir(), 'idempotency-planted-'));
  for (const file of ['.dependency-cruiser.cjs', 'tsconfig.json', 'test/tsconfig.json']) {
    await cp(join(projectRoot, file), join(root, file));
  }
  for (const [path, text] of Object.entries(tree)) {
    await mkdir(dirname(join(root, path)), { recursive: true });
    await writeFile(join(root, path), text);
  }
  return { root, remove: () => rm(root, { recursive: true, force: true }) };
}

/** What dependency-cruiser finds in the tree at `root`, as `rule: from → to`. */
export async function brokenArrows(root: string): Promise<string[]> {
  const report = await runForJson<{
    summary: { violations: { rule: { name: string }; from: string; to: string }[] };
  }>(root, [
    join(projectRoot, 'node_modules/dependency-cruiser/bin/dependency-cruise.mjs'),
    ...['--output-type', 'json'],
    ...['lib', 'test', 'sample-app/src'],
  ]);
  return report.summary.violations.map(({ rule, from, to }) => `${rule.name}: ${from} → ${to}`);
}

/** What ESLint finds in the tree at `root`, as `rule: file`. */
export async function lintFindings(root: string): Promise<string[]> {
  const report = await runForJson<
    { filePath: string; messages: { ruleId: string | null; message: string }[] }[]
  >(root, [
    join(projectRoot, 'node_modules/eslint/bin/eslint.js'),
    ...['--config', join(projectRoot, 'eslint.config.js')],
    ...['--parser-options', `tsconfigRootDir:${root}`],
    ...['--format', 'json', '.'],
  ]);
  return report.flatMap(({ filePath, messages }) =>
    messages.map(
      ({ ruleId, message }) => `${ruleId ?? message}: ${filePath.slice(root.length + 1)}`,
    ),
  );
}

/** Both tools end with a status other than 0 when they find something. */
function runForJson<Report>(cwd: string, command: string[]): Promise<Report> {
  return new Promise((resolve, reject) => {
    const options = { cwd, maxBuffer: 64 * 1024 * 1024 };
    execFile(process.execPath, command, options, (error, stdout, stderr) => {
      try {
        resolve(JSON.parse(stdout) as Report);
      } catch {
        reject(new Error(`${command.join(' ')} gave no report: ${stderr}`, { cause: error }));
      }
    });
  });
}
