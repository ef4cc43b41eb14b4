import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it } from '@jest/globals';
import { ESLint } from 'eslint';
import tseslint from 'typescript-eslint';
import {
  complaintsAbout,
  complaintsInCommonJs,
  documentedFiles,
  samplesOf,
} from '../support/documented-typescript.js';
import { projectRoot } from '../support/project-root.js';

const files = documentedFiles();
const readme = files.filter(({ place }) => place.startsWith('README.md'));

describe('the files in the README', () => {
  it('compile, without anything that they leave to their reader', () => {
    expect(readme).toHaveLength(2);
    expect(
      complaintsAbout(
        readme.map(({ code }) => code),
        {},
      ),
    ).toEqual([]);
  });
});

describe('the files in the README and in docs', () => {
  it('compile as CommonJS modules, too', () => {
    expect(files.length).toBeGreaterThanOrEqual(30);
    expect(complaintsInCommonJs(files)).toEqual([]);
  });

  it('are looked at: `await` at the top is found', () => {
    const code = "import { setTimeout as pause } from 'node:timers/promises';\nawait pause(1);\n";
    expect(complaintsInCommonJs([{ place: 'planted', code }])).toEqual([
      expect.stringMatching(/^planted: .*CommonJS.* 'await' at the top level/),
    ]);
  });
});

describe('the README’s "scope"', () => {
  /** What typescript-eslint says by the rules that `nest new` chooses. */
  async function findings(code: string): Promise<string[]> {
    // One for each: a program that typescript-eslint keeps, and whose file has changed, may miss what a module exports.
    const folder = await mkdtemp(join(projectRoot, 'test/.tmp-lint-'));
    try {
      const config = { extends: '../tsconfig.json', include: ['*.ts'] };
      await writeFile(join(folder, 'tsconfig.json'), JSON.stringify(config));
      await writeFile(join(folder, 'app.module.ts'), code);
      const eslint = new ESLint({
        cwd: folder,
        overrideConfigFile: true,
        overrideConfig: [
          ...(tseslint.configs.recommendedTypeChecked as never[]),
          { languageOptions: { parserOptions: { project: join(folder, 'tsconfig.json') } } },
        ],
      });
      const results = await eslint.lintFiles(['app.module.ts']);
      return results.flatMap(({ messages }) =>
        messages.map(({ ruleId, message }) => ruleId ?? message),
      );
    } finally {
      await rm(folder, { recursive: true, force: true });
    }
  }

  it('passes the type-checked rules', async () => {
    const [, code = ''] = samplesOf('README.md');
    expect(code).toContain('scope:');
    expect(await findings(code)).toEqual([]);
    const untyped = code.replace('<GuardedRequest>', '');
    expect(untyped).not.toBe(code);
    expect(await findings(untyped)).toContain('@typescript-eslint/no-unsafe-assignment');
  });
});
