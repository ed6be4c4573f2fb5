// The time of one product on ggml's first Vulkan device: vulkan OUTPUTS INPUTS ROWS... For q8_0 and q4_k and each number of rows, prints
// type, rows, and the median of the repetitions in milliseconds. Weights are repeated to 64 MB, so that they come from memory.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "ggml-alloc.h"
#include "ggml-backend.h"
#include "ggml-vulkan.h"
#include "ggml.h"

struct Format {
    ggml_type type;
    const char *name;
};

static std::vector<float> noise(size_t count) {
    std::vector<float> values(count);
    for (float &value : values) value = (rand() % 2001 - 1000) / 1000.0f;
    return values;
}

int main(int argc, char **argv) {
    if (argc < 4) return fprintf(stderr, "usage: vulkan OUTPUTS INPUTS ROWS...\n"), 2;
    const int outputs = atoi(argv[1]), inputs = atoi(argv[2]);
    ggml_backend_t device = ggml_backend_vk_init(0);
    if (!device) return fprintf(stderr, "no Vulkan device\n"), 1;
    for (Format format : {Format{GGML_TYPE_Q8_0, "q8_0"}, Format{GGML_TYPE_Q4_K, "q4_k"}}) {
        const size_t bytes = ggml_row_size(format.type, inputs) * outputs;
        const std::vector<float> weights = noise(size_t(inputs) * outputs);
        std::vector<char> quantized(bytes);
        ggml_quantize_chunk(format.type, weights.data(), quantized.data(), 0, outputs, inputs, nullptr);
        for (int at = 3; at < argc; at++) {
            const int rows = atoi(argv[at]);
            const int copies = std::clamp<int>((64 << 20) / bytes, 1, 32);
            ggml_init_params about = {ggml_tensor_overhead() * (2 * copies + 8) + ggml_graph_overhead(), nullptr, true};
            ggml_context *context = ggml_init(about);
            ggml_tensor *x = ggml_new_tensor_2d(context, GGML_TYPE_F32, inputs, rows);
            ggml_cgraph *graph = ggml_new_graph(context);
            std::vector<ggml_tensor *> matrices;
            for (int i = 0; i < copies; i++) {
                matrices.push_back(ggml_new_tensor_2d(context, format.type, inputs, outputs));
                ggml_build_forward_expand(graph, ggml_mul_mat(context, matrices[i], x));
            }
            ggml_backend_buffer_t memory = ggml_backend_alloc_ctx_tensors(context, device);
            const std::vector<float> values = noise(size_t(inputs) * rows);
            ggml_backend_tensor_set(x, values.data(), 0, values.size() * sizeof(float));
            for (ggml_tensor *matrix : matrices) ggml_backend_tensor_set(matrix, quantized.data(), 0, bytes);
            ggml_backend_graph_compute(device, graph);
            std::vector<double> times;
            for (int i = 0; i < 5; i++) {
                const auto begun = std::chrono::steady_clock::now();
                ggml_backend_graph_compute(device, graph);
                ggml_backend_synchronize(device);
                times.push_back(std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begun).count());
            }
            std::sort(times.begin(), times.end());
            printf("%s %d %.4f\n", format.name, rows, times[2] / copies);
            fflush(stdout);
            ggml_backend_buffer_free(memory);
            ggml_free(context);
        }
    }
    ggml_backend_free(device);
}
