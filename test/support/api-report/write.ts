import { mkdirSync, readdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import {
  CompilerState,
  Extractor,
  ExtractorConfig,
  ExtractorLogLevel,
  ExtractorMessageCategory,
} from '@microsoft/api-extractor';
import { flattenDiagnosticMessageText, type Program } from 'typescript';
import { projectRoot } from '../project-root.js';
import { packageEntries } from '../typescript/package-entries.mjs';
import { unnamedTypes } from './unnamed-types.js';

// With --check it writes nothing and fails if a report is stale.
const checks = process.argv.includes('--check');
const started = performance.now();

/** One report for each entry of the packages: what it exports, and the types that these name. */
const REPORTS = join(projectRoot, 'docs/reference/api');
const SILENT = { default: { logLevel: ExtractorLogLevel.None } };

const configs = [...packageEntries(projectRoot)].map(([name, { source }]) => {
  const report = `${name.split(/[-/]/).slice(2).join('-') || 'index'}.api.md`;
  const [, folder = '', file = ''] = /^(.*)lib\/(.*)\.ts$/.exec(source)!;
  const config = ExtractorConfig.prepare({
    configObjectFullPath: undefined,
    packageJsonFullPath: join(projectRoot, folder, 'package.json'),
    configObject: {
      projectFolder: projectRoot,
      // The declarations that tsc has made of `lib/`.
      mainEntryPointFilePath: `<projectFolder>/${folder}build/${file}.d.ts`,
      compiler: { tsconfigFilePath: '<projectFolder>/tsconfig.json' },
      newlineKind: 'lf',
      apiReport: {
        enabled: true,
        includeForgottenExports: true,
        reportFileName: report,
        reportFolder: REPORTS,
        reportTempFolder: '<projectFolder>/node_modules/.cache/nestjs-idempotency/api',
      },
      messages: { extractorMessageReporting: SILENT, tsdocMessageReporting: SILENT },
    },
  });
  return { name, report, config };
});

mkdirSync(REPORTS, { recursive: true });
const reports = configs.map(({ report }) => report);
const stale = readdirSync(REPORTS).filter((name) => !reports.includes(name));
if (!checks) for (const name of stale) rmSync(join(REPORTS, name));

// Most of the time goes into the program, which is the same for all entries.
const compilerState = CompilerState.create(configs[0]!.config, {
  additionalEntryPoints: configs.map(({ config }) => config.mainEntryPointFilePath),
});
// A member that is stripped as internal may be one that an interface requires.
const program = compilerState.program as Program;
for (const file of program.getSourceFiles()) {
  if (!file.fileName.includes('/build/') || file.fileName.includes('/node_modules/')) continue;
  for (const { messageText } of program.getSemanticDiagnostics(file)) {
    throw new Error(
      `${file.fileName} does not compile: ${flattenDiagnosticMessageText(messageText, ' ')}`,
    );
  }
}
/** Each application has these, or may import them without a library of its own. */
const SHARED = ['', '/store', '/transactions'].map((entry) => `nestjs-idempotency${entry}`);
const files = configs.map(({ name, config }) => ({ name, file: config.mainEntryPointFilePath }));
const unnamed = unnamedTypes(program, files, SHARED);
if (unnamed.length > 0) {
  throw new Error(`Public signatures name what no entry exports:\n${unnamed.join('\n')}`);
}
for (const { report, config } of configs) {
  const { apiReportChanged, errorCount } = Extractor.invoke(config, {
    compilerState,
    localBuild: !checks,
    messageCallback(message) {
      message.handled = message.category === ExtractorMessageCategory.Console;
    },
  });
  if (errorCount > 0) throw new Error(`No report of ${config.mainEntryPointFilePath}.`);
  if (apiReportChanged) stale.push(report);
}

if (checks && stale.length > 0) {
  throw new Error(
    `The exports differ from ${stale.join(', ')} in docs/reference/api: run npm run api`,
  );
}
const seconds = ((performance.now() - started) / 1000).toFixed(1);
console.log(`${String(configs.length)} API reports, ${String(stale.length)} changed: ${seconds} s`);
