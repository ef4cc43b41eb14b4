import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from '@jest/globals';
import ts from 'typescript';
import { RECONCILE_DEFAULTS } from '../../../lib/core/reconcile-options.js';
import { projectRoot } from '../../support/project-root.js';

const page = readFileSync(join(projectRoot, 'docs/recovery.md'), 'utf8');
const samples = [...page.matchAll(/```ts\n(.*?)```/gs)].map(([, code = '']) => code);

/** What the page leaves to its reader, and what one sample takes from another. */
const OTHER_FILES = {
  'payments.ts': `export declare class Payments {
    findByKey(key: string, scope: readonly unknown[], signal: AbortSignal): Promise<{ id: number } | undefined>;
  }`,
  'recover-payment.ts': samples[0] ?? '',
};

/** Compiles the samples as files of this folder, where the package finds itself by its own name. */
function complaints(): string[] {
  const pathOf = (name: string) => join(import.meta.dirname, name);
  const paths = samples.map((_, index) => pathOf(`sample-${index}-of-the-page.ts`));
  const files = new Map([
    ...Object.entries(OTHER_FILES).map(([name, text]) => [pathOf(name), text] as const),
    ...paths.map((path, index) => [path, samples[index] ?? ''] as const),
  ]);
  const config = join(projectRoot, 'test/tsconfig.json');
  const { options } = ts.parseJsonConfigFileContent(
    ts.readConfigFile(config, (name) => ts.sys.readFile(name)).config,
    ts.sys,
    join(projectRoot, 'test'),
  );
  const host = ts.createCompilerHost(options);
  host.fileExists = (name) => files.has(name) || ts.sys.fileExists(name);
  host.readFile = (name) => files.get(name) ?? ts.sys.readFile(name);
  const program = ts.createProgram(paths, options, host);
  return paths.flatMap((path, index) => {
    const source = program.getSourceFile(path);
    const found = [
      ...program.getSyntacticDiagnostics(source),
      ...program.getSemanticDiagnostics(source),
    ];
    return found.map(
      ({ messageText }) => `sample ${index}: ${ts.flattenDiagnosticMessageText(messageText, '\n')}`,
    );
  });
}

describe('the page about recovery', () => {
  it('has TypeScript that compiles as it stands', () => {
    expect(samples).not.toEqual([]);
    expect(complaints()).toEqual([]);
  }, 60_000);

  it('tells the defaults as they are', () => {
    const rows = [...page.matchAll(/^\| `(\w+Ms|batchSize)` +\| `(\d+)`/gm)];
    const told = rows.map(([, name = '', value]) => [name, Number(value)]);
    expect(Object.fromEntries(told)).toEqual(RECONCILE_DEFAULTS);
  });
});
