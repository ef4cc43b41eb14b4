// The same as ES modules.
import 'reflect-metadata';
import { Module } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { IdempotencyModule, IdempotencyService } from 'nestjs-idempotency';
import { redisStore } from 'nestjs-idempotency/redis';

globalThis.runOnce({ Module, NestFactory, IdempotencyModule, IdempotencyService, redisStore });
