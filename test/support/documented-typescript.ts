import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import ts from 'typescript';
import { projectRoot } from './project-root.js';

/** The samples of TypeScript on a page of the documentation. */
export function samplesOf(page: string): string[] {
  const text = readFileSync(join(projectRoot, page), 'utf8');
  return [...text.matchAll(/```ts\n(.*?)```/gs)].map(([, code = '']) => code);
}

/** Where a sample stands, and its text. */
export interface DocumentedFile {
  readonly place: string;
  readonly code: string;
}

/** The samples that are whole files, on the README and in `docs`: those that import something. The others are excerpts. */
export function documentedFiles(): DocumentedFile[] {
  const docs = readdirSync(join(projectRoot, 'docs')).filter((name) => name.endsWith('.md'));
  const pages = ['README.md', ...docs.map((name) => `docs/${name}`)];
  return pages.flatMap((page) =>
    samplesOf(page).flatMap((code, index) =>
      /^import /m.test(code) ? { place: `${page}, ${index}`, code } : [],
    ),
  );
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
  const files = new Map(Object.entries(otherFiles));
  const sources = samples.map((code, index) => ({ place: `sample ${index}`, code }));
  return complaints(sources, files, {}).map(({ place, text }) => `${place}: ${text}`);
}

/** What a page leaves to its reader: an unknown name, an unknown file. */
const LEFT_TO_READERS = new Set([2304, 2307]);

/** From here on the compiler complains of types, below of what no module of this kind may hold. */
const FIRST_OF_TYPES = 2000;

/**
 * What the compiler says of samples in a project such as `nest new` of Nest 11 makes: of CommonJS modules. Of
 * types only where nothing is left to the reader: the tests of the pages bring it, and see the rest.
 */
export function complaintsInCommonJs(sources: readonly DocumentedFile[]): string[] {
  const packageJson = new Map([['package.json', '{ "type": "commonjs" }']]);
  const found = complaints(sources, packageJson, {
    target: ts.ScriptTarget.ES2023,
    verbatimModuleSyntax: false,
    esModuleInterop: true,
    strict: false,
    strictNullChecks: true,
    noUncheckedIndexedAccess: false,
    exactOptionalPropertyTypes: false,
  });
  const unfinished = new Set(
    found.filter(({ code }) => LEFT_TO_READERS.has(code)).map(({ place }) => place),
  );
  return found
    .filter(({ place, code }) => code < FIRST_OF_TYPES || !unfinished.has(place))
    .map(({ place, text }) => `${place}: ${text}`);
}

function complaints(
  sources: readonly DocumentedFile[],
  otherFiles: ReadonlyMap<string, string>,
  own: ts.CompilerOptions,
) {
  const pathOf = (name: string) => join(projectRoot, 'test', name);
  // A folder of its own where there is a package.json.
  const folder = otherFiles.has('package.json') ? 'sample-project' : '.';
  const paths = sources.map((_, index) => pathOf(join(folder, `sample-${index}-of-a-page.ts`)));
  const files = new Map([
    ...[...otherFiles].map(([name, text]) => [pathOf(join(folder, name)), text] as const),
    ...paths.map((path, index) => [path, sources[index]?.code ?? ''] as const),
  ]);
  const config = ts.readConfigFile(pathOf('tsconfig.json'), (name) => ts.sys.readFile(name));
  const { options } = ts.parseJsonConfigFileContent(config.config, ts.sys, pathOf('.'));
  const all = { ...options, ...own };
  const host = ts.createCompilerHost(all);
  host.directoryExists = (name) => name === pathOf(folder) || ts.sys.directoryExists(name);
  host.fileExists = (name) => files.has(name) || ts.sys.fileExists(name);
  host.readFile = (name) => files.get(name) ?? ts.sys.readFile(name);
  const program = ts.createProgram(paths, all, host);
  return paths.flatMap((path, index) => {
    const source = program.getSourceFile(path);
    const found = [
      ...program.getSyntacticDiagnostics(source),
      ...program.getSemanticDiagnostics(source),
    ];
    return found.map(({ code, messageText }) => ({
      place: sources[index]?.place ?? '',
      code,
      text: ts.flattenDiagnosticMessageText(messageText, '\n'),
    }));
  });
}
