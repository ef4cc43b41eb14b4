/** The environment without what npm and Jest added to it for this test run. */
export function outsideEnvironment(): NodeJS.ProcessEnv {
  const { NODE_OPTIONS, npm_config_local_prefix, ...rest } = process.env;
  return rest;
}
