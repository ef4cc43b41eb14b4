import { readdir, readFile } from 'node:fs/promises';
import { dirname, join, relative } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { cruise, type IConfiguration, type ICruiseResult } from 'dependency-cruiser';
import extractDepcruiseConfig from 'dependency-cruiser/config-utl/extract-depcruise-config';
import { plant, type Finding } from '../support/planted/planted-tree.js';
import { projectRoot } from '../support/project-root.js';

interface Matrix {
  /** Folder → folders and files that it may import. */
  readonly rows: ReadonlyMap<string, readonly string[]>;
  readonly packages: readonly { name: string; users: string[]; ways: string[] | undefined }[];
  inOrder(rows: Record<string, string>): Matrix['rows'];
}

const { default: matrix } = (await import(
  join(projectRoot, '.dependency-cruiser.folders.cjs')
)) as { default: Matrix };
const manifest = JSON.parse(await readFile(join(projectRoot, 'package.json'), 'utf8'));
const folders = [...matrix.rows.keys()];

/** The file of a folder that others import in this test, and the one that imports theirs. */
const targetIn = (folder: string) =>
  folder.endsWith('.ts') ? `lib/${folder}` : `lib/${folder}/target.ts`;
const importerIn = (folder: string) =>
  folder.endsWith('.ts') ? `lib/${folder}` : `lib/${folder}/importer.ts`;
const targets = [...new Set([...folders, ...[...matrix.rows.values()].flat()])];
/** The folder of a file that a row names; of a folder, the folder. */
const folderOf = (name: string) => name.replace(/\/[^/]+\.ts$/, '');
const fileOf = (name: string) => `node_modules/${name}/index.js`;

const importing = (what: string) => `export * from '${what}';\n`;
const importingType = (what: string) => `import type {} from '${what}';\n`;
const statements: Readonly<Record<string, (what: string) => string>> = {
  import: importing,
  'type-only': importingType,
  'dynamic-import': (what) => `export const loaded = import('${what}');\n`,
};
const importOf = (from: string, to: string) =>
  importing(`./${relative(dirname(from), to).replace(/\.ts$/, '.js')}`);

/** What `folder` may import, and what of the rest it tries: its neighbours, and one from elsewhere. */
const arrowsOf = (folder: string) => {
  const may = [folder, ...matrix.rows.get(folder)!];
  const isAllowed = (to: string) => may.includes(to) || may.includes(folderOf(to));
  const isNear = (to: string) => to.split('/')[0] === folder.split('/')[0];
  const rest = targets.filter((to) => !isAllowed(to));
  const far = rest.filter((to) => !isNear(to));
  const elsewhere = far[folders.indexOf(folder) % far.length];
  return {
    allowed: targets.filter((to) => to !== folder && isAllowed(to)),
    stopped: rest.filter((to) => isNear(to) || to === elsewhere),
  };
};

/** The packages that `folder` may import, and one that it may not. */
const packagesOf = (folder: string) => {
  const own = matrix.packages.filter(({ users }) => users.includes(folder));
  const others = matrix.packages.filter(({ users }) => !users.includes(folder));
  return { own, other: others[folders.indexOf(folder) % others.length]! };
};

const tree: Record<string, string> = Object.fromEntries([
  ...matrix.packages.map(({ name }) => [fileOf(name), 'export {};\n']),
  [fileOf('without-a-row'), 'export {};\n'],
  ...targets.map((target) => [targetIn(target), 'export {};\n']),
]);
for (const folder of folders) {
  const file = importerIn(folder);
  const { allowed, stopped } = arrowsOf(folder);
  const { own, other } = packagesOf(folder);
  tree[file] = [
    ...[...allowed, ...stopped].map((to) => importOf(file, targetIn(to))),
    ...[...own, other].map(({ name }) => importing(name)),
    importing('without-a-row'),
    importing('node:crypto'),
  ].join('');
}

/** One file per package and way in which its first folder might import it. */
const ways = matrix.packages.flatMap(({ name, users: [folder], ways: allowed }) =>
  Object.entries(statements).map(([way, statement]) => {
    const file = `lib/${folder!}/${way}-of-${name.replace(/\W/g, '-')}.ts`;
    tree[file] = statement(name);
    return { name, way, file, allowed: allowed ?? Object.keys(statements) };
  }),
);

/** For each rule that is no row of the matrix: files that break it, with what they import. */
const others: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  'no-circle': {
    // A circle is reported at one of its files: the hens are below.
    'lib/core/util/egg.ts': './hen.js',
    'test/unit/egg.ts': './hen.js',
  },
  'nothing-unresolvable': { 'test/unit/seeker.ts': './no-such-file.js' },
  'folder-without-a-row': { 'lib/attic/chest.ts': 'node:path' },
  'lib-stands-alone': {
    'lib/nest/tester.ts': '../../test/unit/helper.js',
    'lib/nest/sampler.ts': '../../sample-app/src/main.js',
    'lib/nest/itself.ts': 'nestjs-idempotency/redis',
    'lib/nest/configured.ts': '../../rollup.config.js',
    'lib/nest/calling.ts': '../../packages/client/lib/index.js',
  },
  'nest-internals-in-one-file': {
    'lib/nest/registry/guarded.ts': '@nestjs/common/constants.js',
    'lib/transports/http/routed.ts': '@nestjs/common/constants.js',
    'lib/testing/routed.ts': '@nestjs/common/constants.js',
    'lib/swagger/explored.ts': '@nestjs/core/router/router-explorer.js',
  },
  'client-stands-alone': {
    'packages/client/lib/sharer.ts': '../../../lib/core/util/target.js',
    'packages/client/lib/user.ts': 'rxjs',
    'packages/client/lib/reader.ts': 'node:fs',
  },
  'cli-runs-when-it-is-loaded': { 'test/support/internals/cli.ts': '../../../lib/cli/main.js' },
  'sample-app-uses-the-package': {
    'sample-app/src/main.ts': '../../lib/index.js',
    'sample-app/src/helped.ts': '../../test/unit/helper.js',
    'sample-app/demo/helped.ts': '../../test/unit/helper.js',
  },
  'sample-app-without-its-demo': { 'sample-app/src/shown.ts': '../demo/by-name.js' },
  'tests-use-entries-or-internals': {
    'test/unit/inside.ts': '../../lib/core/util/target.js',
    'test/support/inside.ts': '../../lib/stores/redis/target.js',
    'test/unit/inside-client.ts': '../../packages/client/lib/target.js',
  },
  'tests-without-the-lab': { 'test/e2e/measured.ts': '../../lab/bench/tool.js' },
};
/** What looks like them, and is allowed. */
const sound: Readonly<Record<string, string>> = {
  'lib/nest/discovery/nest-metadata.ts': '@nestjs/common/constants.js',
  'packages/client/lib/index.ts': './target.js',
  'test/unit/client.ts': '../../packages/client/lib/index.js',
  'test/support/internals/core.ts': '../../../lib/core/util/target.js',
  'test/unit/entries.ts': '../../lib/stores/redis/index.js',
  'test/unit/internals.ts': '../support/internals/core.js',
  'test/e2e/judged.ts': '../../lab/faults/oracle.js',
  'sample-app/src/by-name.ts': 'nestjs-idempotency/redis',
  'sample-app/demo/by-name.ts': '../src/by-name.js',
};
Object.assign(tree, {
  'node_modules/@nestjs/common/constants.js': 'export {};\n',
  'node_modules/@nestjs/core/router/router-explorer.js': 'export {};\n',
  'lib/stores/redis/index.ts': 'export {};\n',
  'lib/cli/main.ts': 'export {};\n',
  'packages/client/lib/target.ts': 'export {};\n',
  'test/unit/helper.ts': 'export {};\n',
  'lab/bench/tool.ts': 'export {};\n',
  'lab/faults/oracle.ts': 'export {};\n',
  'rollup.config.js': 'export {};\n',
  'lib/core/util/hen.ts': importing('./egg.js'),
  'test/unit/hen.ts': importingType('./egg.js'),
});
for (const [file, imported] of [...Object.values(others), sound].flatMap(Object.entries)) {
  tree[file] = importing(imported as string);
}

/** The project's arrows. */
const arrows: IConfiguration = await extractDepcruiseConfig(
  join(projectRoot, '.dependency-cruiser.cjs'),
);

/** What dependency-cruiser finds in the tree at `root`; its message is what was imported. */
async function brokenArrows(root: string): Promise<Finding[]> {
  const { options, ...ruleSet } = structuredClone(arrows);
  const { output } = await cruise(
    ['lib', 'packages/client/lib', 'test', 'sample-app/src', 'sample-app/demo'],
    {
      ...options,
      baseDir: root,
      ruleSet,
      validate: true,
    },
  );
  return (output as ICruiseResult).summary.violations.map(({ rule, from, to }) => ({
    rule: rule.name,
    file: from,
    message: to,
  }));
}

let found: Finding[];
let planted: Awaited<ReturnType<typeof plant>>;
beforeAll(async () => {
  planted = await plant(tree);
  found = await brokenArrows(planted.root);
}, 60_000);
afterAll(() => planted.remove());

const about = (file: string) => found.filter((finding) => finding.file === file);

describe('the matrix of folders', () => {
  it('has a row for each folder of lib', async () => {
    const files = await readdir(join(projectRoot, 'lib'), { recursive: true });
    const used = files
      .filter((file) => file.endsWith('.ts'))
      .map((file) => (dirname(file) === '.' ? file : dirname(file)));
    expect([...folders].sort()).toEqual([...new Set(used)].sort());
  });

  it.each([
    ['two folders', { a: 'b', b: 'a' }],
    ['three folders', { a: '', b: 'a d', c: 'b', d: 'c' }],
    ['a folder and one below it', { 'a/b': 'a', a: 'a/b' }],
    ['two folders of one row', { '{a,b}': 'b' }],
    ['a folder and a file of another', { a: 'b/c.ts', b: 'a' }],
  ])('holds no circle of %s', (_, rows) => {
    expect(() => matrix.inOrder(rows)).toThrow('no row above it');
  });

  it.each(['stores/memory', 'codecs/plain', 'codecs/json', 'cli', 'testing/store'])(
    'lets lib/%s need no package',
    (folder) => {
      const users = matrix.packages
        .flatMap((one) => one.users)
        .filter((user) => `${user}/`.startsWith(`${folder}/`));
      // It loads the client of the store that it is asked about.
      expect(users.filter((user) => user !== 'cli/servers')).toEqual([]);
    },
  );

  it('names packages that an application has, and needs no optional one for the main entry', () => {
    const loaded = new Set(['index.ts']);
    for (const name of loaded) for (const next of matrix.rows.get(name) ?? []) loaded.add(next);
    const { dependencies, peerDependencies, peerDependenciesMeta: optional } = manifest;
    for (const { name, users, ways } of matrix.packages) {
      expect({ ...dependencies, ...peerDependencies }).toHaveProperty([name]);
      if (optional[name] === undefined || !users.some((folder) => loaded.has(folder))) continue;
      expect({ name, ways }).toEqual({ name, ways: ['dynamic-import'] });
    }
  });

  it.each(folders)('decides what lib/%s may import', (folder) => {
    const { own, other } = packagesOf(folder);
    const expected = [
      ...arrowsOf(folder).stopped.map((to) => `lib/${folder}: ${targetIn(to)}`),
      ...own
        .filter(({ ways }) => ways !== undefined)
        .map(({ name, ways }) => `package ${name}, ${ways!.join(' or ')}: ${fileOf(name)}`),
      `package ${other.name}: ${fileOf(other.name)}`,
      `package-without-a-row: ${fileOf('without-a-row')}`,
    ];
    const reported = about(importerIn(folder)).map(({ rule, message }) => `${rule}: ${message}`);
    expect(reported.sort()).toEqual(expected.sort());
  });

  it.each(ways)('decides whether $file may have $name', ({ file, way, allowed }) => {
    expect(about(file)).toHaveLength(allowed.includes(way) ? 0 : 1);
  });
});

describe('the other arrows', () => {
  const cases = Object.entries(others).flatMap(([rule, files]) =>
    Object.keys(files).map((file) => ({ rule, file })),
  );

  it.each(cases)('$rule stops $file', ({ rule, file }) => {
    expect(about(file).map((finding) => finding.rule)).toContain(rule);
  });

  it.each(Object.keys(sound))('leave %s alone', (file) => {
    expect(about(file)).toEqual([]);
  });

  it('are broken by this test, each of them', () => {
    const rules = (arrows.forbidden ?? []).map(({ name }) => name);
    expect(new Set(found.map(({ rule }) => rule))).toEqual(new Set(rules));
  });
});
