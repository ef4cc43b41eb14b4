import ts from 'typescript';

/** The `compilerOptions` of the projects that `nest new` makes, by the version of its command line tool. */
export const SCAFFOLDS = {
  '11.0.24': {
    module: 'nodenext',
    moduleResolution: 'nodenext',
    resolvePackageJsonExports: true,
    esModuleInterop: true,
    isolatedModules: true,
    declaration: true,
    removeComments: true,
    emitDecoratorMetadata: true,
    experimentalDecorators: true,
    allowSyntheticDefaultImports: true,
    target: 'ES2023',
    sourceMap: true,
    outDir: './dist',
    baseUrl: './',
    incremental: true,
    skipLibCheck: true,
    strictNullChecks: true,
    forceConsistentCasingInFileNames: true,
    noImplicitAny: false,
    strictBindCallApply: false,
    noFallthroughCasesInSwitch: false,
  },
  '12.0.8': {
    module: 'nodenext',
    moduleResolution: 'nodenext',
    resolvePackageJsonExports: true,
    esModuleInterop: true,
    isolatedModules: true,
    declaration: true,
    removeComments: true,
    emitDecoratorMetadata: true,
    experimentalDecorators: true,
    allowSyntheticDefaultImports: true,
    target: 'ES2023',
    sourceMap: true,
    outDir: './dist',
    rootDir: '.',
    incremental: true,
    skipLibCheck: true,
    strict: true,
    strictPropertyInitialization: false,
    types: ['vitest/globals', 'node'],
  },
} as const;

/** What TypeScript 5, which `nest new` 11 installs, does by default, and 6 does not. */
const DEFAULTS_OF_5 = { strict: false, types: ['node'] };

/** What users have: the scaffolds, and the strictest and the loosest that are usual. */
export const TSCONFIGS: Readonly<Record<string, object>> = {
  'nest new 11': { ...DEFAULTS_OF_5, ...SCAFFOLDS['11.0.24'], baseUrl: undefined },
  'nest new 12': { ...SCAFFOLDS['12.0.8'], types: ['node'] },
  'no strictness at all': {
    ...DEFAULTS_OF_5,
    ...SCAFFOLDS['11.0.24'],
    baseUrl: undefined,
    strictNullChecks: false,
    isolatedModules: false,
  },
  'every strictness, for a bundler': {
    ...SCAFFOLDS['12.0.8'],
    types: ['node'],
    module: 'esnext',
    moduleResolution: 'bundler',
    strictPropertyInitialization: true,
    exactOptionalPropertyTypes: true,
    noUncheckedIndexedAccess: true,
    noPropertyAccessFromIndexSignature: true,
    noImplicitOverride: true,
  },
};

/** The compiler's options that the JSON of a `tsconfig.json` means. */
export function optionsOf(compilerOptions: object, folder: string): ts.CompilerOptions {
  const json = JSON.parse(JSON.stringify(compilerOptions)) as object;
  const { options, errors } = ts.convertCompilerOptionsFromJson(json, folder);
  const [error] = errors;
  if (error !== undefined) throw new Error(ts.flattenDiagnosticMessageText(error.messageText, ' '));
  return options;
}
