import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import ts from 'typescript';
import { projectRoot } from './project-root.js';

/** The samples of TypeScript on a page of the documentation. */
export function samplesOf(page: string): string[] {
  const text = readFileSync(join(projectRoot, page), 'utf8');
  return [...text.matchAll(/```ts\n(.*?)```/gs)].map(([, code = '']) => code);
}

/**
 * What the compiler says of samples, as files of `test`, where the package finds itself by its own name.
 *
 * @param otherFiles - what the page leaves to its reader: name → text.
 */
export function complaintsAbout(
  samples: readonly string[],
  otherFiles: Readonly<Record<string, string>>,
): string[] {
  const pathOf = (name: string) => join(projectRoot, 'test', name);
  const paths = samples.map((_, index) => pathOf(`sample-${index}-of-a-page.ts`));
  const files = new Map([
    ...Object.entries(otherFiles).map(([name, text]) => [pathOf(name), text] as const),
    ...paths.map((path, index) => [path, samples[index] ?? ''] as const),
  ]);
  const config = ts.readConfigFile(pathOf('tsconfig.json'), (name) => ts.sys.readFile(name));
  const { options } = ts.parseJsonConfigFileContent(config.config, ts.sys, pathOf('.'));
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
