// The application as CommonJS. The agent is loaded before it.
require('reflect-metadata');
const { Module } = require('@nestjs/common');
const { NestFactory } = require('@nestjs/core');
const { IdempotencyModule, IdempotencyService } = require('nestjs-idempotency');
const { redisStore } = require('nestjs-idempotency/redis');

globalThis.runOnce({ Module, NestFactory, IdempotencyModule, IdempotencyService, redisStore });
