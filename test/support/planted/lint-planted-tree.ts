import { join } from 'node:path';
import { ESLint, type Linter } from 'eslint';
import type { Finding } from './planted-tree.js';
import { projectRoot } from '../project-root.js';

const LINT_CONFIG = join(projectRoot, 'eslint.config.js');

/** The project's ESLint configuration; inherited parts have a name with a ">". */
export const { default: lintConfig } = (await import(LINT_CONFIG)) as { default: Linter.Config[] };

/** What ESLint finds in `files` of the tree at `root`. */
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
