/** Of `@golevelup/nestjs-rabbitmq`, which an application of its own installs: npm does not resolve its peers beside Nest 12. */
export const golevelupVersion = '9.0.2';
