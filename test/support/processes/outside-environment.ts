/** The environment without the additions of npm and Jest for this test run. */
export function outsideEnvironment(): NodeJS.ProcessEnv {
  const { NODE_OPTIONS, npm_config_local_prefix, ...rest } = process.env;
  return rest;
}
