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

/** A page's samples that shall compile as they stand. */
export interface DocumentedPage {
  readonly page: string;
  readonly samples: readonly string[];
  /** What the page leaves to its reader: name → text. */
  readonly otherFiles: Readonly<Record<string, string>>;
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
  return complaintsOnPages([{ page: 'the page', samples, otherFiles }]);
}

/** The same of several pages, which see nothing of each other: the compiler reads all that they import once. */
export function complaintsOnPages(pages: readonly DocumentedPage[]): string[] {
  const projects = pages.map(({ page, samples, otherFiles }, index) => ({
    folder: `sample-page-${index}`,
    sources: samples.map((code, at) => ({ place: `${page}, ${at}`, code })),
    otherFiles,
  }));
  return complaints(projects, {}).map(({ place, text }) => `${place}: ${text}`);
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
  const otherFiles = { 'package.json': '{ "type": "commonjs" }' };
  const found = complaints([{ folder: 'sample-project', sources, otherFiles }], {
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

/** Files in a folder of their own below `test`, which is not there. */
interface Project {
  readonly folder: string;
  readonly sources: readonly DocumentedFile[];
  readonly otherFiles: Readonly<Record<string, string>>;
}

function complaints(projects: readonly Project[], own: ts.CompilerOptions) {
  const pathOf = (...names: string[]) => join(projectRoot, 'test', ...names);
  const folders = new Set(projects.map(({ folder }) => pathOf(folder)));
  const sources = projects.flatMap(({ folder, sources: ofProject }) =>
    ofProject.map(({ place, code }, index) => ({
      place,
      path: pathOf(folder, `sample-${index}-of-a-page.ts`),
      code,
    })),
  );
  const files = new Map([
    ...projects.flatMap(({ folder, otherFiles }) =>
      Object.entries(otherFiles).map(([name, text]) => [pathOf(folder, name), text] as const),
    ),
    ...sources.map(({ path, code }) => [path, code] as const),
  ]);
  const config = ts.readConfigFile(pathOf('tsconfig.json'), (name) => ts.sys.readFile(name));
  const { options } = ts.parseJsonConfigFileContent(config.config, ts.sys, pathOf('.'));
  const all = { ...options, ...own };
  const host = ts.createCompilerHost(all);
  host.directoryExists = (name) => folders.has(name) || ts.sys.directoryExists(name);
  host.fileExists = (name) => files.has(name) || ts.sys.fileExists(name);
  host.readFile = (name) => files.get(name) ?? ts.sys.readFile(name);
  const program = ts.createProgram(
    sources.map(({ path }) => path),
    all,
    host,
  );
  return sources.flatMap(({ place, path }) => {
    const source = program.getSourceFile(path);
    const found = [
      ...program.getSyntacticDiagnostics(source),
      ...program.getSemanticDiagnostics(source),
    ];
    return found.map(({ code, messageText }) => ({
      place,
      code,
      text: ts.flattenDiagnosticMessageText(messageText, '\n'),
    }));
  });
}
