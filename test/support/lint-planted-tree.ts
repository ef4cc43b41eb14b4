import { cp, mkdir, mkdtemp, realpath, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { cruise, type IConfiguration, type ICruiseResult } from 'dependency-cruiser';
import extractDepcruiseConfig from 'dependency-cruiser/config-utl/extract-depcruise-config';
import { ESLint, type Linter } from 'eslint';
import { projectRoot } from './project-root.js';

/** Files of a made-up project: path → text. */
export type Tree = Readonly<Record<string, string>>;

/** A tool's complaints. */
export interface Finding {
  readonly rule: string;
  readonly file: string;
  readonly message: string;
}

/** Writes a project that consists of `tree` and this project's TypeScript settings. */
export async function plant(tree: Tree): Promise<{ root: string; remove: () => Promise<void> }> {
  const root = await realpath(await mkdtemp(join(tmpdir(), 'idempotency-planted-')));
  for (const file of ['tsconfig.json', 'test/tsconfig.json']) {
    await cp(join(projectRoot, file), join(root, file));
  }
  for (const [path, text] of Object.entries(tree)) {
    await mkdir(dirname(join(root, path)), { recursive: true });
    await writeFile(join(root, path), text);
  }
  return { root, remove: () => rm(root, { recursive: true, force: true }) };
}

/** The project's dependency rules. */
export const arrows: IConfiguration = await extractDepcruiseConfig(
  join(projectRoot, '.dependency-cruiser.cjs'),
);

const LINT_CONFIG = join(projectRoot, 'eslint.config.js');

/** The project's ESLint configuration; inherited parts have a name with a ">". */
export const { default: lintConfig } = (await import(LINT_CONFIG)) as { default: Linter.Config[] };

/** What dependency-cruiser reports for the tree at `root`; its message is the imported file. */
export async function brokenArrows(root: string): Promise<Finding[]> {
  const { options, ...ruleSet } = structuredClone(arrows);
  const { output } = await cruise(['lib', 'test', 'sample-app/src'], {
    ...options,
    baseDir: root,
    ruleSet,
    validate: true,
  });
  return (output as ICruiseResult).summary.violations.map(({ rule, from, to }) => ({
    rule: rule.name,
    file: from,
    message: to,
  }));
}

/** What ESLint reports for `files` of the tree at `root`. */
export async function lintFindings(root: string, files: string[]): Promise<Finding[]> {
  const eslint = new ESLint({
    cwd: root,
    overrideConfigFile: LINT_CONFIG,
    overrideConfig: { languageOptions: { parserOptions: { tsconfigRootDir: root } } },
  });
  const results = await eslint.lintFiles(files);
  return results.flatMap(({ filePath, messages }) =>
    messages.map(({ ruleId, message }) => ({
      rule: ruleId ?? message,
      file: filePath.slice(root.length + 1),
      message,
    })),
  );
}
