/*
 * SPDX-FileCopyrightText: Copyright (c) 1993-2026 NVIDIA CORPORATION & AFFILIATES. All rights reserved.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Licensed under the Apache License, Version 2.0 (the "License");
 * you may not use this file except in compliance with the License.
 * You may obtain a copy of the License at
 *
 * http://www.apache.org/licenses/LICENSE-2.0
 *
 * Unless required by applicable law or agreed to in writing, software
 * distributed under the License is distributed on an "AS IS" BASIS,
 * WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
 * See the License for the specific language governing permissions and
 * limitations under the License.
 */
// Changed: all comments after this were removed.
#ifndef NV_INFER_VERSION_H
#define NV_INFER_VERSION_H
#define TRT_MAJOR_ENTERPRISE 11
#define TRT_MINOR_ENTERPRISE 1
#define TRT_PATCH_ENTERPRISE 0
#define TRT_BUILD_ENTERPRISE 106
#define NV_TENSORRT_MAJOR TRT_MAJOR_ENTERPRISE
#define NV_TENSORRT_MINOR TRT_MINOR_ENTERPRISE
#define NV_TENSORRT_PATCH TRT_PATCH_ENTERPRISE
#define NV_TENSORRT_BUILD TRT_BUILD_ENTERPRISE
#define NV_TENSORRT_LWS_MAJOR 0
#define NV_TENSORRT_LWS_MINOR 0
#define NV_TENSORRT_LWS_PATCH 0
#define NV_TENSORRT_RELEASE_TYPE_EARLY_ACCESS 0
#define NV_TENSORRT_RELEASE_TYPE_RELEASE_CANDIDATE 1
#define NV_TENSORRT_RELEASE_TYPE_GENERAL_AVAILABILITY 2
#define NV_TENSORRT_RELEASE_TYPE NV_TENSORRT_RELEASE_TYPE_GENERAL_AVAILABILITY
#endif
