import { readFileSync } from 'node:fs';
import type { GeneratedSources } from './generated-sources.js';

/** How Nest's users bundle a built application into one file. */
export interface Bundler {
  readonly name: string;
  /** Files to write for it. */
  readonly files: GeneratedSources;
  readonly command: readonly [program: string, ...args: string[]];
  /** Its output. */
  readonly output: string;
}

/** What Nest requires if installed: the recipe of its documentation leaves it out of bundles. */
export const LAZY = [
  '@nestjs/microservices',
  '@nestjs/microservices/microservices-module',
  '@nestjs/microservices/microservices-module.js',
  '@nestjs/websockets/socket-module',
  '@nestjs/websockets/socket-module.js',
  'class-validator',
  'class-transformer',
  'class-transformer/storage',
  // The one of pg.
  'pg-native',
];

export const esbuildCommonJs: Bundler = {
  name: 'esbuild, CommonJS, minified',
  files: {},
  // Operations and providers are identified by their classes' names.
  command: esbuild('--minify', '--keep-names', '--format=cjs', '--outfile=bundle/main.cjs'),
  output: 'bundle/main.cjs',
};

export const esbuildModule: Bundler = {
  name: 'esbuild, ES module',
  files: {},
  // Under names that occur nowhere in the bundle.
  command: esbuild(
    '--format=esm',
    '--outfile=bundle/main.mjs',
    "--banner:js=import { createRequire as bannerCreateRequire } from 'node:module'; const require = bannerCreateRequire(import.meta.url);",
  ),
  output: 'bundle/main.mjs',
};

/** That of the guide, which is from Nest's documentation of serverless functions. */
export const nestWebpack: Bundler = {
  name: 'nest build --webpack, without externals',
  files: {
    'webpack.one-file.js': readFileSync(new URL('webpack.one-file.cjs', import.meta.url), 'utf8'),
  },
  command: ['npx', 'nest', 'build', '--webpack', '--webpackPath', 'webpack.one-file.js'],
  output: 'dist/main.js',
};

export const webpackModule: Bundler = {
  name: 'webpack, ES module',
  files: {
    'webpack.one-file.mjs': `import { resolve } from 'node:path';
import webpack from 'webpack';
const lazy = ${JSON.stringify(LAZY)};
export default {
  target: 'node20',
  mode: 'production',
  // It would shorten the names of classes, too, and write "production" in the place of process.env.NODE_ENV.
  optimization: { minimize: false, nodeEnv: false },
  entry: './dist/main.js',
  experiments: { outputModule: true },
  output: { path: resolve('bundle'), filename: 'main.mjs', module: true, chunkFormat: 'module' },
  plugins: [
    new webpack.IgnorePlugin({ checkResource: (resource) => lazy.includes(resource) }),
    new webpack.optimize.LimitChunkCountPlugin({ maxChunks: 1 }),
  ],
};
`,
  },
  command: ['npx', 'webpack', '--config', 'webpack.one-file.mjs'],
  output: 'bundle/main.mjs',
};

function esbuild(...args: string[]): ['npx', ...string[]] {
  const externals = LAZY.map((name) => `--external:${name}`);
  return ['npx', 'esbuild', 'dist/main.js', '--bundle', '--platform=node', ...externals, ...args];
}
