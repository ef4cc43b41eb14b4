import { readFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import ts from 'typescript';
import { projectRoot } from '../project-root.js';
import { documentationPages } from './documented-blocks.js';
import { optionsOf } from './tsconfigs.js';

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

/** The samples in the README and in `docs`, without the reports of the API. */
export function documentedSamples(): DocumentedFile[] {
  return documentationPages().flatMap((page) =>
    samplesOf(page).map((code, index) => ({ place: `${page}, ${index}`, code })),
  );
}

/** The files from which README and `docs` show a block, whole or in part. */
export function documentedRecipes(): string[] {
  const pages = documentationPages().map((page) => readFileSync(join(projectRoot, page), 'utf8'));
  const named = pages.flatMap((page) =>
    Array.from(page.matchAll(/<!-- code: ([^\s#]+\.ts)(?:#\S+)? -->/g), ([, path]) => path!),
  );
  return [...new Set(named)].map((path) => join(projectRoot, path));
}

/** What each page leaves to the reader: the names of files and their texts. */
export type UncheckedByTests = Readonly<Record<string, Readonly<Record<string, string>>>>;

/** The compiler's messages on samples, as modules of `test`, where the package finds itself by its own name. */
export function complaintsInModules(files: readonly DocumentedFile[], left: UncheckedByTests) {
  return complaints(files, left, {}).map(({ place, text }) => `${place}: ${text}`);
}

/** What a page leaves to the reader: an unknown name, an unknown file. */
const LEFT_TO_READERS = new Set([2304, 2307]);

/**
 * From this code on, messages are about types; the codes below are about what no module of this kind may
 * contain.
 */
const FIRST_OF_TYPES = 2000;

/**
 * The compiler's messages on samples in a project as `nest new` of Nest 11 makes it, of CommonJS modules.
 * Types are checked only where nothing is left to the reader: {@link complaintsInModules} covers the rest.
 */
export function complaintsInCommonJs(files: readonly DocumentedFile[]): string[] {
  const left = files.map(({ place }) => [
    pageOf(place),
    { 'package.json': '{ "type": "commonjs" }' },
  ]);
  const found = complaints(files, Object.fromEntries(left) as UncheckedByTests, {
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

/** The compiler's messages on samples, and on the client, where there is nothing but a browser. */
export function complaintsInBrowsers(files: readonly DocumentedFile[]): string[] {
  const client = join(projectRoot, 'packages/client/lib/index.ts');
  const found = complaints(
    files,
    {},
    {
      lib: ['lib.es2022.d.ts', 'lib.dom.d.ts'],
      types: [],
      module: ts.ModuleKind.ESNext,
      moduleResolution: ts.ModuleResolutionKind.Bundler,
      paths: { 'nestjs-idempotency-client': [client] },
    },
    /\/packages\/client\/lib\//,
  );
  return found.map(({ place, text }) => `${place}: ${text}`);
}

/** Of a package that is not installed. */
const DECLARATIONS = [join(projectRoot, 'examples/golevelup/golevelup-nestjs-rabbitmq.d.ts')];

/**
 * The compiler's messages on files of `test` with the options of a user's project, where the package finds itself by its
 * own name.
 */
export function complaintsWith(compilerOptions: object, paths: readonly string[]): string[] {
  const { paths: entries = {}, pathsBasePath } = testOptions();
  const options: ts.CompilerOptions = {
    ...optionsOf(compilerOptions, projectRoot),
    ...{ paths: entries, rootDir: projectRoot, noEmit: true },
    pathsBasePath,
  };
  const host = ts.createCompilerHost(options);
  host.getSourceFile = parsed;
  const program = ts.createProgram([...paths, ...DECLARATIONS], options, host);
  return paths.flatMap((path) => {
    const source = program.getSourceFile(path);
    const found = [
      ...program.getSyntacticDiagnostics(source),
      ...program.getSemanticDiagnostics(source),
    ];
    return found.map(
      ({ messageText }) =>
        `${relative(projectRoot, path)}: ${ts.flattenDiagnosticMessageText(messageText, '\n')}`,
    );
  });
}

const sources = new Map<string, ts.SourceFile | undefined>();

/** Once for all programs that read it as the same kind of module. */
function parsed(
  name: string,
  how: ts.ScriptTarget | ts.CreateSourceFileOptions,
): ts.SourceFile | undefined {
  const key = `${name} ${JSON.stringify(how)}`;
  if (!sources.has(key)) {
    const text = ts.sys.readFile(name);
    sources.set(key, text === undefined ? undefined : ts.createSourceFile(name, text, how));
  }
  return sources.get(key);
}

/** The page on which a sample stands. */
export const pageOf = (place: string) => place.replace(/, \d+$/, '');

function testOptions(): ts.CompilerOptions {
  const tsconfig = join(projectRoot, 'test/tsconfig.json');
  const config = ts.readConfigFile(tsconfig, (name) => ts.sys.readFile(name));
  return ts.parseJsonConfigFileContent(config.config, ts.sys, dirname(tsconfig)).options;
}

/** Compiles all samples as one program, each page in its own folder, with what it leaves to the reader. */
function complaints(
  sources: readonly DocumentedFile[],
  left: UncheckedByTests,
  own: ts.CompilerOptions,
  alsoAbout?: RegExp,
) {
  const folderOf = (page: string) =>
    join(projectRoot, 'test', `samples-of-${page.replace(/\W/g, '-')}`);
  const samples = new Map(
    sources.map(({ place, code }, index) => [
      join(folderOf(pageOf(place)), `sample-${index}-of-a-page.ts`),
      { place, code },
    ]),
  );
  const files = new Map([...samples].map(([path, { code }]) => [path, code]));
  for (const [page, texts] of Object.entries(left)) {
    for (const [name, text] of Object.entries(texts)) files.set(join(folderOf(page), name), text);
  }
  const folders = new Set([...files.keys()].map((path) => dirname(path)));
  const all = { ...testOptions(), ...own };
  const host = ts.createCompilerHost(all);
  host.directoryExists = (name) => folders.has(name) || ts.sys.directoryExists(name);
  host.fileExists = (name) => files.has(name) || ts.sys.fileExists(name);
  host.readFile = (name) => files.get(name) ?? ts.sys.readFile(name);
  const declarations = [...files.keys()].filter((name) => name.endsWith('.d.ts'));
  const program = ts.createProgram([...samples.keys(), ...declarations], all, host);
  const asked = program
    .getSourceFiles()
    .filter(({ fileName }) => samples.has(fileName) || alsoAbout?.test(fileName) === true);
  return asked.flatMap((source) => {
    const found = [
      ...program.getSyntacticDiagnostics(source),
      ...program.getSemanticDiagnostics(source),
    ];
    return found.map(({ code, messageText }) => ({
      place: samples.get(source.fileName)?.place ?? source.fileName,
      code,
      text: ts.flattenDiagnosticMessageText(messageText, '\n'),
    }));
  });
}
