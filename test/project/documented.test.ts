import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join, posix } from 'node:path';
import { describe, expect, it } from '@jest/globals';
import { parse } from 'yaml';
import { CHECKS } from '../../lab/model/checks.js';
import { propertyOf, REPORT } from '../../lab/model/figures.js';
import { esbuildCommonJs, esbuildModule, LAZY } from '../package/support/bundlers.js';
import {
  blocksOf,
  documentationPages,
  headingsOf,
  withCode,
} from '../support/docs/documented-blocks.js';
import {
  figuresFolder,
  loadReport,
  pagesWithFigures,
  withFigures,
} from '../support/docs/figures/report.js';
import { stalePages } from '../support/docs/problem-pages.js';
import { lengthOf, lengthsOfGuides } from '../support/docs/words.js';
import { DEFAULT_LIMITS, EVENT_SEVERITY, REJECTIONS } from '../support/internals/core.js';
import { OPTIONS } from '../support/internals/nest.js';
import { shippedTexts } from '../support/packages/shipped-texts/shipped-texts.js';
import { projectRoot } from '../support/project-root.js';

const read = (path: string) => readFileSync(join(projectRoot, path), 'utf8');

describe('documentation links', () => {
  const read = (page: string) => readFileSync(join(projectRoot, page), 'utf8');

  const pages = [
    ...readdirSync(projectRoot).filter((name) => name.endsWith('.md')),
    ...readdirSync(join(projectRoot, 'docs'), { recursive: true, encoding: 'utf8' })
      .filter((name) => name.endsWith('.md'))
      .map((name) => join('docs', name)),
    'sample-app/README.md',
    'test/contract/README.md',
  ];

  /** Targets within the project. A link in code is part of an example, and left out. */
  function linksOf(page: string): string[] {
    const text = read(page).replace(/```[^]*?```|`[^`\n]*`/g, '');
    return [...text.matchAll(/\]\(([^)\s]+)\)/g)]
      .map(([, target]) => target!)
      .filter((target) => !/^[a-z]+:/.test(target));
  }

  function anchorsOf(file: string): string[] {
    return headingsOf(readFileSync(file, 'utf8')).map(({ anchor }) => anchor);
  }

  describe('The links of the documentation', () => {
    it.each(pages)('lead to existing targets: %s', (page) => {
      for (const target of linksOf(page)) {
        const [path = '', anchor] = target.split('#');
        const file = path === '' ? join(projectRoot, page) : join(projectRoot, dirname(page), path);
        expect({ target, exists: existsSync(file) }).toEqual({ target, exists: true });
        if (anchor !== undefined) {
          expect({ target, anchors: anchorsOf(file) }).toMatchObject({
            anchors: expect.arrayContaining([anchor]),
          });
        }
      }
    });

    it('are found', () => {
      expect(linksOf('README.md').length).toBeGreaterThan(10);
    });
  });

  /** Pages that are linked from the index of their folder, or of one above it. */
  function indexOf(page: string): string[] {
    const folders = page.split('/').slice(0, -1);
    return folders
      .map((_, depth) => [...folders.slice(0, depth + 1), 'README.md'].join('/'))
      .filter((index) => index !== page);
  }

  function isLinked(page: string, from: string, text: string): boolean {
    const targets = [...text.matchAll(/\]\(([^)\s#]+)/g)].map(([, target]) =>
      posix.join(posix.dirname(from), target!),
    );
    return targets.includes(page);
  }

  describe('The index', () => {
    const all = documentationPages();
    const inDocs = all.filter((page) => page.startsWith('docs/') && page !== 'docs/README.md');
    const unlinked = (some: readonly string[]) =>
      some.filter(
        (page) =>
          !indexOf(page).some((index) => all.includes(index) && isLinked(page, index, read(index))),
      );

    it('links each page of docs: docs/README.md, or the README of its room', () => {
      expect(unlinked(inDocs)).toEqual([]);
      expect(isLinked('docs/README.md', 'README.md', read('README.md'))).toBe(true);
    });

    it('is missed by a page that it does not link', () => {
      const planted = ['docs/guides/planted.md', 'docs/measurements/planted.md'];
      expect(unlinked([...inDocs, ...planted])).toEqual(planted);
    });
  });
});

type Configure = (
  options: { plugins: unknown[] },
  webpack: object,
) => { plugins: { options: { checkResource?(name: string): boolean } }[] };

/** The arguments of a command, in any order; a quoted one counts without its quotes. */
function argumentsIn(command: string): string[] {
  const words = command.replaceAll('\\\n', ' ').match(/(?:"[^"]*"|[^\s"])+/g) ?? [];
  return words.map((word) => word.replaceAll('"', '')).sort();
}

describe('docs/guides/bundles.md', () => {
  const page = readFileSync(join(projectRoot, 'docs/guides/bundles.md'), 'utf8');
  const [command = '', banner = ''] = blocksOf(page)
    .filter(({ language }) => language === 'sh')
    .map(({ text }) => text);

  it('has the commands of esbuild that the tests of bundles run', () => {
    expect(argumentsIn(command)).toEqual([...esbuildCommonJs.command].sort());
    expect(esbuildModule.command).toContain(argumentsIn(banner).join());
  });

  it('has one list for esbuild and webpack', () => {
    class Plugin {
      constructor(readonly options: { checkResource?(name: string): boolean }) {}
    }
    const file = join(projectRoot, 'test/package/support/webpack.one-file.cjs');
    const configure = createRequire(file)(file) as Configure;
    const webpack = { IgnorePlugin: Plugin, optimize: { LimitChunkCountPlugin: Plugin } };
    const [ignore] = configure({ plugins: [] }, webpack).plugins;
    const leavesOut = (name: string) => ignore?.options.checkResource?.(name);
    expect([...LAZY, 'pg', '@nestjs/core'].filter(leavesOut)).toEqual(LAZY);
  });
});

/** What the drain is followed by: open connections and the store's own. */
const CLOSING_S = 10;

interface Container {
  readonly command: readonly string[];
  readonly lifecycle: { readonly preStop: { readonly sleep: { readonly seconds: number } } };
  readonly livenessProbe: Probe;
  readonly readinessProbe: Probe & { readonly timeoutSeconds: number };
}

interface Probe {
  readonly httpGet: { readonly path: string };
}

interface Deployment {
  readonly spec: {
    readonly template: {
      readonly spec: {
        readonly terminationGracePeriodSeconds: number;
        readonly containers: readonly [Container];
      };
    };
  };
}

const page = readFileSync(join(projectRoot, 'docs/operations/shutdown-and-kubernetes.md'), 'utf8');
const [, yaml = ''] = /```yaml\n([^]*?)```/.exec(page) ?? [];

/** The seconds that are left of the pod's grace period after pause, drain and closing. */
function secondsLeft(text: string): number {
  const { terminationGracePeriodSeconds, containers } = (parse(text) as Deployment).spec.template
    .spec;
  const pause = containers[0].lifecycle.preStop.sleep.seconds;
  return terminationGracePeriodSeconds - pause - DEFAULT_LIMITS.shutdownTimeout / 1000 - CLOSING_S;
}

describe('The deployment in docs/operations/shutdown-and-kubernetes.md', () => {
  it('gives a process the time for its pause, its drain and its connections', () => {
    expect(secondsLeft(yaml)).toBeGreaterThanOrEqual(0);
    const planted = yaml.replace(/(terminationGracePeriodSeconds:) \d+/, '$1 15');
    expect(secondsLeft(planted)).toBeLessThan(0);
  });

  it('starts node itself, and probes liveness apart from readiness', () => {
    const [container] = (parse(yaml) as Deployment).spec.template.spec.containers;
    expect(container.command[0]).toBe('node');
    expect(container.livenessProbe.httpGet.path).not.toBe(container.readinessProbe.httpGet.path);
  });
});

function filesIn(folder: string, ending: string): string[] {
  return readdirSync(join(projectRoot, folder), { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith(ending))
    .sort();
}

const sources = (isWanted: (file: string) => boolean) =>
  ['lib', 'packages/client/lib']
    .flatMap((folder) => filesIn(folder, '.ts').map((file) => `${folder}/${file}`))
    .filter(isWanted)
    .map(read)
    .join('\n');
const library = sources((file) => !file.startsWith('lib/cli/'));
const doctor = sources((file) => file.includes('/diagnosis/') || file.startsWith('lib/cli/'));

function matches(text: string, pattern: RegExp): string[] {
  return [...new Set(Array.from(text.matchAll(pattern), ([, found]) => found!))];
}

/** Names as code writes or reads them: `headers['x']`, `getHeader('x')`, `fieldValue(headers, 'x')`. */
const HEADER =
  /(?:[hH]eaders\[|headers\.(?:get|has|set)\(|[gs]etHeader\(|fieldLines\([\w., ]+, |fieldValue\(\w+, )'([\w-]+)'/g;

function optionNames(): string[] {
  const groups = OPTIONS as unknown as Record<string, { fields?: Record<string, unknown> }>;
  return Object.entries(groups).flatMap(([name, { fields }]) =>
    Object.keys(fields ?? { [name]: 1 }),
  );
}

interface Subject {
  readonly what: string;
  readonly page: string;
  readonly names: readonly string[];
  /** How the page writes a name. */
  readonly asWritten?: (name: string) => string;
}

const inRow = (name: string) => `| \`${name}\` |`;
const asCode = (name: string) => `\`${name}\``;

const subjects: readonly Subject[] = [
  { what: 'option', page: 'options.md', names: optionNames(), asWritten: inRow },
  { what: 'event', page: 'events.md', names: Object.keys(EVENT_SEVERITY), asWritten: inRow },
  { what: 'problem', page: 'problems/README.md', names: Object.keys(REJECTIONS) },
  { what: 'code', page: 'errors.md', names: matches(library, /\bcode = '(idempotency_\w+)'/g) },
  { what: 'rejection', page: 'errors.md', names: Object.keys(REJECTIONS) },
  {
    what: 'warning of a store',
    page: 'errors.md',
    names: matches(library, /code: '([a-z]+_[a-z_]+)'/g),
  },
  {
    what: 'warning',
    page: 'errors.md',
    names: matches(library, /(?:code: '|\[)(IDEMPOTENCY_[A-Z_]+)['\]]/g),
  },
  {
    what: 'header',
    page: 'headers.md',
    names: matches(library, HEADER).map((name) => name.toLowerCase()),
    asWritten: (name) => `\`${name}`,
  },
  {
    what: 'script',
    page: 'lua-and-sql.md',
    names: [...filesIn('lua', '.lua'), ...filesIn('sql', '.sql')]
      .filter((name) => !name.startsWith('shared/'))
      .map((name) => name.replace(/^migrations\//, '')),
  },
  {
    what: 'check of the doctor',
    page: '../operations/doctor.md',
    names: matches(doctor, /\b(?:ok|warning|error)\(\s*'([a-z]+)',/g),
  },
  {
    what: 'page',
    page: 'README.md',
    names: filesIn('docs/reference', '.md').filter(
      (name) => name !== 'README.md' && !/^problems\/[a-z]/.test(name),
    ),
    asWritten: (name) => `](${name})`,
  },
];

/** The names that a page lacks. */
function missing({ names, asWritten = asCode, page }: Subject, text: string): string[] {
  // Headers are written as they are in RFC 9110, and read in lower case.
  const content = page === 'headers.md' ? text.toLowerCase() : text;
  return names.filter((name) => !content.includes(asWritten(name)));
}

describe.each(subjects)('Every $what', (subject) => {
  const page = read(`docs/reference/${subject.page}`);

  it(`has its place in ${subject.page}`, () => {
    expect(subject.names.length).toBeGreaterThan(1);
    expect(missing(subject, page)).toEqual([]);
  });

  it('is missed there', () => {
    const [name] = subject.names as [string];
    const { asWritten = asCode } = subject;
    const written = asWritten(name).replace(/[\\^$.*+?()[\]{}|]/g, String.raw`\$&`);
    expect(missing(subject, page.replace(new RegExp(written, 'gi'), ''))).toContain(name);
  });
});

/** Guides that have been longer than a new one may be: they may not grow beyond this. */
const LONGER_GUIDES = 1_200;

/** `npm run texts -- --words` prints them. */
describe('The guides', () => {
  const lengths = lengthsOfGuides();
  const LONG = ['calls', 'messages', 'which-store'].map((name) => `docs/guides/${name}.md`);

  it.each(lengths)(
    'are short, and so are their paragraphs: $page',
    ({ page, words, paragraphs }) => {
      expect(words).toBeLessThanOrEqual(LONG.includes(page) ? LONGER_GUIDES : 900);
      expect(Math.max(...paragraphs)).toBeLessThanOrEqual(70);
    },
  );

  it('are no more than a reader can choose from', () => {
    const sum = lengths.reduce((all, { words }) => all + words, 0);
    expect(sum).toBeLessThanOrEqual(33_500);
  });

  it('are counted by their prose alone', () => {
    const page = `# A page

One [link](to/a/page.md#with-words), two.

- three
- four five

| a | table |
| --- | --- |

<!-- code: not/this.ts -->

\`\`\`ts
not(this);
\`\`\`
`;
    expect(lengthOf('a.md', page)).toEqual({ page: 'a.md', words: 10, paragraphs: [3, 1, 2] });
    const long = `# Page\n\n${'word '.repeat(71)}\n`;
    expect(lengthOf('a.md', long).paragraphs).toEqual([71]);
  });
});

it.each(shippedTexts())('$path equals its source: npm run texts', ({ path, source }) => {
  expect(readFileSync(join(projectRoot, path), 'utf8')).toBe(source);
});

it('the pages about problems and their index are those of the table of rejections', () => {
  expect(stalePages()).toEqual([]);
});

describe('A block of code that names its file', () => {
  it.each(documentationPages())('is what the file has: %s (npm run texts)', (page) => {
    const text = read(page);
    expect(withCode(text, read)).toBe(text);
  });

  const file = 'a;\n// #region one\n  if (b) {\n    c;\n  }\n// #endregion\nd;\n';
  const page = (place: string) =>
    `# Page\n\n<!-- code: ${place} -->\n\n\`\`\`ts\nold\n\`\`\`\n\nEnd.\n`;
  const block = (code: string) => expect.stringContaining(`-->\n\n\`\`\`ts\n${code}\`\`\`\n\nEnd.`);

  it('is the whole file, without the marks of its regions', () => {
    const marked = withCode(page('x.ts'), () => file);
    expect(marked).toEqual(block('a;\n  if (b) {\n    c;\n  }\nd;\n'));
  });

  it('is a region, without the indentation that its lines share', () => {
    expect(withCode(page('x.ts#one'), () => file)).toEqual(block('if (b) {\n  c;\n}\n'));
  });

  it('is not written from a region that is gone', () => {
    expect(() => withCode(page('x.ts#two'), () => file)).toThrow('x.ts has no region "two"');
  });
});

describe('The figures of the documentation', () => {
  const pages = pagesWithFigures.map((page) => readFileSync(page, 'utf8'));

  it.each(pages)('are those that the runs wrote (--report)', (page) => {
    expect(page).toBe(withFigures(page, loadReport));
  });

  it('are all shown', () => {
    const kept = readdirSync(figuresFolder).map((name) => name.replace(/\.json$/, ''));
    const shown = pages.flatMap((page) => [...page.matchAll(/<!-- figures: ([a-z-]+) -->/g)]);
    // The tables of the benchmark are kept elsewhere and have their own test.
    const ofReports = shown.map(([, name]) => name!).filter((name) => !name.startsWith('bench-'));
    expect(ofReports.sort()).toEqual(kept.sort());
  });

  it('of the model are those of its runs: npm run lab -- model --report', () => {
    const shown = loadReport(REPORT)?.table ?? [];
    const ofRuns = CHECKS.filter(({ expected }) => expected === 'no error').map(propertyOf);
    expect(shown.map(({ states: _, 'counted on': __, ...property }) => property)).toEqual(ofRuns);
  });

  it('stand between their marks, and nothing else changes', () => {
    const page = 'before\n<!-- figures: some -->\nold\n<!-- end of figures -->\nafter\n';
    const written = withFigures(page, () => ({
      command: 'npm run some',
      date: '2026-01-02T03:04:05.678Z',
      versions: { Node: '20.1.2' },
      cores: 2,
      table: [
        { what: 'requests', count: 1_000_000 },
        { what: 'a|b', count: '< 3/1000' },
      ],
    }));
    expect(written).toMatch(/^before\n<!-- figures: some -->\n\n`npm run some` \(2026-01-02, Node/);
    expect(written).toContain('\n| what | count |\n| --- | --: |\n| requests | 1,000,000 |\n');
    expect(written).toContain('| a\\|b | < 3/1000 |');
    expect(written).toMatch(/<!-- end of figures -->\nafter\n$/);
    expect(written).not.toContain('old');
  });
});
