import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join, posix } from 'node:path';
import ts from 'typescript';

// Of the package in whose folder it runs: the root, or one of `packages`.

/** Where tsc has put what it made of `lib/`. */
const COMPILED = 'build';

const { bin = {}, exports } = JSON.parse(readFileSync('package.json', 'utf8'));

/** `dist/esm/stores/redis/index.js` → `stores/redis/index`. */
const stemOf = (file) => /^\.\/dist\/esm\/(.+)\.js$/.exec(file)[1];

/** An entry is what package.json exports, and nothing else. */
const entries = Object.values(exports)
  .filter((entry) => typeof entry === 'object')
  .map(({ import: { default: file } }) => stemOf(file));
const programs = Object.values(bin).map(stemOf);

const inputOf = (stems) =>
  Object.fromEntries(stems.map((stem) => [stem, join(COMPILED, `${stem}.js`)]));

/** tsc indents by four blanks, which were a ninth of the package. */
const withTabs = (text) =>
  text.replaceAll(/^(?: {4})+/gm, (blanks) => '\t'.repeat(blanks.length / 4));

/** Each declaration that an entry needs, as tsc made it: for CommonJS, whose types an ES module may have as well. */
const declarations = {
  name: 'declarations',
  generateBundle() {
    const needed = new Map();
    const add = (fileName) => {
      const file = join(COMPILED, fileName);
      if (needed.has(fileName) || !existsSync(file)) return;
      const source = readFileSync(file, 'utf8');
      needed.set(fileName, source);
      for (const [, path] of source.matchAll(/(?:from|import\(|import) ?'(\.[^']+)\.js'/g)) {
        add(`${posix.join(posix.dirname(fileName), path)}.d.ts`);
      }
    };
    for (const stem of entries) add(`${stem}.d.ts`);
    for (const [fileName, source] of needed) {
      this.emitFile({ type: 'asset', fileName, source: withTabs(source) });
    }
  },
};

/** Of the ES modules: the same types, so that there is one of each class, however it was loaded. */
const sameDeclarations = {
  name: 'same declarations',
  generateBundle() {
    for (const stem of entries) {
      const fileName = `${stem}.d.ts`;
      const file = join(COMPILED, fileName);
      if (!existsSync(file)) continue;
      const way = `export * from '${posix.relative(posix.dirname(stem), '..')}/cjs/${stem}.js';\n`;
      // What an entry shows to TypeScript, an ES module has to see as an ES module's.
      const shown = readFileSync(file, 'utf8').match(/^export type \{\} from .+\n/gm) ?? [];
      this.emitFile({ type: 'asset', fileName, source: way + shown.join('') });
    }
  },
};

/** What comments say to users stands in the declarations, and the rest in the repository. */
const withoutWeight = {
  name: 'without weight',
  renderChunk(code) {
    const file = ts.createSourceFile('chunk.js', code, ts.ScriptTarget.Latest, true);
    const parts = [];
    const add = (node) => {
      const children = node.getChildren(file).filter((child) => !ts.isJSDoc(child));
      if (children.length > 0) return children.forEach(add);
      // Between two tokens there are blanks and comments, and nothing else.
      const before = code.slice(node.getFullStart(), node.getStart(file));
      const blanks = before.replaceAll(/\/\*(?!#__PURE__)[^]*?\*\/|\/\/.*/g, '');
      const lines = blanks.replaceAll(/[ \t]*\n\s*\n/g, '\n');
      parts.push(withTabs(lines), node.getText(file));
    };
    add(file);
    return { code: parts.join(''), map: null };
  },
};

const COMMONJS = '{ "type": "commonjs" }\n';

const commonJs = {
  name: 'commonjs',
  generateBundle() {
    this.emitFile({ type: 'asset', fileName: 'package.json', source: COMMONJS });
  },
};

/** Tells the ES modules how to load peers. */
const PEERS = 'core/util/peers';
const hasPeers = existsSync(join(COMPILED, `${PEERS}.js`));

/**
 * What Node loads for `require()`: the ES modules, of which it then has one copy, and before them how they load the
 * peers that they import when they need them.
 */
const required = {
  name: 'required',
  writeBundle(_, bundle) {
    const imported = Object.values(bundle).flatMap(({ dynamicImports = [] }) => dynamicImports);
    const peers = [...new Set(imported)].filter((name) => !(name in bundle)).sort();
    const write = (stem, linesAt) => {
      const file = join('dist/require', `${stem}.js`);
      mkdirSync(dirname(file), { recursive: true });
      writeFileSync(
        file,
        ["'use strict';", ...linesAt('../'.repeat(stem.split('/').length)), ''].join('\n'),
      );
    };
    write('peers', (dist) => [
      `require('${dist}esm/${PEERS}.js').loadPeersBy({`,
      ...peers.map((name) => `  '${name}': () => require('${name}'),`),
      '});',
    ]);
    for (const stem of entries) {
      write(stem, (dist) => [
        `require('${dist}require/peers.js');`,
        `module.exports = require('${dist}esm/${stem}.js');`,
      ]);
    }
    writeFileSync('dist/require/package.json', COMMONJS);
  },
};

rmSync('dist', { recursive: true, force: true });

const shared = {
  external: /^[^./]/,
  // What is not used is the business of who bundles an application.
  treeshake: false,
  onwarn({ code, message }) {
    // tsc's helper for decorators asks for one at `this`.
    if (code !== 'THIS_IS_UNDEFINED') throw new Error(message);
  },
};

const output = {
  entryFileNames: '[name].js',
  chunkFileNames: 'shared/[name].js',
  // A file imports what it needs itself: nothing is loaded earlier than the sources would.
  hoistTransitiveImports: false,
  minifyInternalExports: false,
  // As Node's lexer finds the names that an ES module imports from CommonJS.
  generatedCode: { preset: 'es2015', arrowFunctions: false },
};

/** @type {import('rollup').RollupOptions[]} */
export default [
  {
    ...shared,
    input: inputOf([...entries, ...programs, ...(hasPeers ? [PEERS] : [])]),
    output: {
      ...output,
      dir: 'dist/esm',
      format: 'es',
      plugins: [withoutWeight, sameDeclarations, ...(hasPeers ? [required] : [])],
    },
  },
  {
    ...shared,
    input: inputOf(entries),
    output: {
      ...output,
      dir: 'dist/cjs',
      format: 'cjs',
      exports: 'named',
      interop: 'auto',
      // Jest supports import() only with an option, and so do projects whose Jest transforms the package.
      dynamicImportInCjs: false,
      plugins: [withoutWeight, declarations, commonJs],
    },
  },
];
