import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from '@jest/globals';
import ts from 'typescript';
import { projectRoot } from '../../support/project-root.js';

const page = readFileSync(join(projectRoot, 'docs/fencing.md'), 'utf8');
const samples = [...page.matchAll(/```ts\n(.*?)```/gs)].map(([, code = '']) => code);

/** What the page leaves to its reader. */
const CARRIER = 'export declare class Carrier { print(order: string): Promise<string>; }';

/** Compiles it as a file of this folder, where the package finds itself by its own name. */
function complaintsAbout(sample: string): string[] {
  const path = join(import.meta.dirname, 'sample-of-the-page.ts');
  const files = new Map([
    [path, sample],
    [join(import.meta.dirname, 'carrier.ts'), CARRIER],
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
  const program = ts.createProgram([path], options, host);
  const source = program.getSourceFile(path);
  const found = [
    ...program.getSyntacticDiagnostics(source),
    ...program.getSemanticDiagnostics(source),
  ];
  return found.map(({ messageText }) => ts.flattenDiagnosticMessageText(messageText, '\n'));
}

describe('the TypeScript on the page about fencing', () => {
  it('is there', () => {
    expect(samples).not.toEqual([]);
  });

  it.each(samples)(
    'compiles as it stands: sample %#',
    (sample) => {
      expect(complaintsAbout(sample)).toEqual([]);
    },
    60_000,
  );
});
