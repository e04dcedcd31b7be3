// cusparse_cg FILE TOLERANCE METHOD...: CG and products with cuSPARSE on one GPU.
//
// `rrbsolver-bench sparse NAME --write FILE` writes the system. The right-hand side is A (1, 1, ..), and solves start
// from zero. Methods:
//
//     products        A x in csr (two algorithms) and sell, next to the rate of copies on the device
//     jacobi          CG preconditioned by the diagonal
//     ilu0, ic0       CG preconditioned by an incomplete factorization and its triangular solves (cusparseSpSV)
//
// The suffix "+colours" orders the rows by colours first, "+sell" multiplies in sell instead of csr, "+launches"
// launches each kernel instead of a CUDA graph per iteration. Example: ilu0+colours+sell. CUDA 12.4 or newer:
//
//     nvcc -O3 -arch=native -Wno-deprecated-declarations benches/peers/cusparse_cg.cu -lcusparse -o cusparse_cg
//
// With the Python wheel nvidia-cusparse in W = site-packages/nvidia/cu13, replace -lcusparse by
//
//     -I$W/include -Xlinker $W/lib/libcusparse.so.12 -Xlinker -rpath=$W/lib
//
// stdout receives the lines that `rrbsolver-bench sparse --peer` reads: product,FORMAT,SECONDS for products in a row,
// and nine fields for a solve. stderr receives a table of products. The setup begins with the csr arrays on the host
// and includes their upload; b and x are on the device.
#include "rows.h"
#include <cstring>
#include <functional>
#include <utility>
#include <cuda_runtime.h>
#include <cusparse.h>

// A warm-up run precedes the measured runs. BLOCKS: four per multiprocessor of an H200.
enum { RUNS = 3, CALLS = 30, ROUNDS = 11, MOST_ITERATIONS = 5000, THREADS = 512, BLOCKS = 528, SLICE = 32 };
static const size_t COPY_BYTES = 512 << 20;

static void check(cudaError_t status, const char *what) {
  if (status != cudaSuccess) fail(cudaGetErrorString(status), what);
}

static void check(cusparseStatus_t status, const char *what) {
  if (status != CUSPARSE_STATUS_SUCCESS) fail(cusparseGetErrorString(status), what);
}

#define CHECK(call) check(call, #call)

static Rows lower_triangle(const Rows &a) {
  Rows l;
  l.ptr.push_back(0);
  for (int i = 0; i < a.n(); i++) {
    for (int k = a.ptr[i]; k < a.ptr[i + 1] && a.col[k] <= i; k++) {
      l.col.push_back(a.col[k]);
      l.val.push_back(a.val[k]);
    }
    l.ptr.push_back((int)l.col.size());
  }
  return l;
}

// Colours each row with the smallest colour that no neighbour has, and returns the rows ordered by colours.
static Indices order_by_colours(const Rows &a) {
  Indices colour(a.n(), -1), used, count, order(a.n());
  for (int i = 0; i < a.n(); i++) {
    for (int k = a.ptr[i]; k < a.ptr[i + 1]; k++)
      if (colour[a.col[k]] >= 0) used[colour[a.col[k]]] = i;
    int c = 0;
    while (c < (int)used.size() && used[c] == i) c++;
    if (c == (int)used.size()) {
      used.push_back(-1);
      count.push_back(0);
    }
    colour[i] = c;
    count[c]++;
  }
  int first = 0;
  for (int &c : count) first += std::exchange(c, first);
  for (int i = 0; i < a.n(); i++) order[count[colour[i]]++] = i;
  return order;
}

static Rows permuted(const Rows &a, const Indices &order) {
  Indices rank(a.n());
  for (int i = 0; i < a.n(); i++) rank[order[i]] = i;
  Rows to;
  to.ptr.push_back(0);
  std::vector<std::pair<int, double>> row;
  for (int old : order) {
    row.clear();
    for (int k = a.ptr[old]; k < a.ptr[old + 1]; k++) row.push_back({rank[a.col[k]], a.val[k]});
    std::sort(row.begin(), row.end());
    for (auto &entry : row) {
      to.col.push_back(entry.first);
      to.val.push_back(entry.second);
    }
    to.ptr.push_back((int)to.col.size());
  }
  return to;
}

// Arrays on the device, which are freed with their owner.
class Memory {
  std::vector<void *> all;

 public:
  Memory() = default;
  Memory(const Memory &) = delete;
  ~Memory() {
    for (void *p : all) cudaFree(p);
  }
  template <class T> T *room(size_t n) {
    void *p = nullptr;
    CHECK(cudaMalloc(&p, std::max<size_t>(n, 1) * sizeof(T)));
    all.push_back(p);
    return static_cast<T *>(p);
  }
  template <class T> T *copy(const std::vector<T> &from) {
    T *to = room<T>(from.size());
    CHECK(cudaMemcpy(to, from.data(), from.size() * sizeof(T), cudaMemcpyHostToDevice));
    return to;
  }
};

struct DeviceRows {
  int n, entries;
  int *ptr, *col;
  double *val;
  DeviceRows(Memory &memory, const Rows &a)
      : n(a.n()), entries(a.entries()), ptr(memory.copy(a.ptr)), col(memory.copy(a.col)), val(memory.copy(a.val)) {}
  cusparseSpMatDescr_t describe() const {
    cusparseSpMatDescr_t a;
    CHECK(cusparseCreateCsr(&a, n, n, entries, ptr, col, val, CUSPARSE_INDEX_32I, CUSPARSE_INDEX_32I,
                            CUSPARSE_INDEX_BASE_ZERO, CUDA_R_64F));
    return a;
  }
};

static const double ONE = 1, ZERO = 0;

// y = A x with buffers.
struct Product {
  cusparseHandle_t handle;
  cusparseSpMVAlg_t algorithm;
  cusparseSpMatDescr_t a;
  cusparseDnVecDescr_t x, y;
  void *buffer = nullptr;
  // Bytes that a product moves at least: the format, x and y once.
  double bytes;

  Product(cusparseHandle_t handle, Memory &memory, const DeviceRows &rows, cusparseSpMVAlg_t algorithm, double *x,
          double *y)
      : handle(handle), algorithm(algorithm), a(rows.describe()), bytes(12.0 * rows.entries + 20.0 * rows.n) {
    allocate(memory, rows.n, x, y);
    CHECK(cusparseSpMV_preprocess(handle, CUSPARSE_OPERATION_NON_TRANSPOSE, &ONE, a, this->x, &ZERO, this->y,
                                  CUDA_R_64F, algorithm, buffer));
  }

  // In slices of 32 rows. A padding entry has column -1.
  Product(cusparseHandle_t handle, Memory &memory, const Rows &rows, double *x, double *y)
      : handle(handle), algorithm(CUSPARSE_SPMV_SELL_ALG1) {
    const int n = rows.n(), slices = (n + SLICE - 1) / SLICE;
    Indices first(slices + 1);
    for (int s = 0; s < slices; s++) {
      int longest = 0;
      for (int i = s * SLICE; i < std::min(n, (s + 1) * SLICE); i++)
        longest = std::max(longest, rows.ptr[i + 1] - rows.ptr[i]);
      if (first[s] > INT32_MAX - longest * SLICE) fail("2^31 entries or more with padding", "sell");
      first[s + 1] = first[s] + longest * SLICE;
    }
    Indices col(first[slices], -1);
    Numbers val(first[slices], 0.0);
    for (int i = 0; i < n; i++)
      for (int k = rows.ptr[i], to = first[i / SLICE] + i % SLICE; k < rows.ptr[i + 1]; k++, to += SLICE) {
        col[to] = rows.col[k];
        val[to] = rows.val[k];
      }
    CHECK(cusparseCreateSlicedEll(&a, n, n, rows.entries(), (int64_t)val.size(), SLICE, memory.copy(first),
                                  memory.copy(col), memory.copy(val), CUSPARSE_INDEX_32I, CUSPARSE_INDEX_32I,
                                  CUSPARSE_INDEX_BASE_ZERO, CUDA_R_64F));
    bytes = 12.0 * val.size() + 4.0 * slices + 16.0 * n;
    allocate(memory, n, x, y);
  }

  void allocate(Memory &memory, int n, double *from, double *to) {
    size_t room = 0;
    CHECK(cusparseCreateDnVec(&x, n, from, CUDA_R_64F));
    CHECK(cusparseCreateDnVec(&y, n, to, CUDA_R_64F));
    CHECK(cusparseSpMV_bufferSize(handle, CUSPARSE_OPERATION_NON_TRANSPOSE, &ONE, a, x, &ZERO, y, CUDA_R_64F,
                                  algorithm, &room));
    buffer = memory.room<char>(room);
  }

  Product(const Product &) = delete;
  ~Product() {
    cusparseDestroyDnVec(x);
    cusparseDestroyDnVec(y);
    cusparseDestroySpMat(a);
  }

  cusparseStatus_t run() const {
    return cusparseSpMV(handle, CUSPARSE_OPERATION_NON_TRANSPOSE, &ONE, a, x, &ZERO, y, CUDA_R_64F, algorithm, buffer);
  }
};

// Solves with one triangle of the entries of a factorization.
struct Triangle {
  cusparseHandle_t handle;
  cusparseOperation_t operation;
  cusparseSpMatDescr_t a;
  cusparseDnVecDescr_t from, to;
  cusparseSpSVDescr_t plan;

  Triangle(cusparseHandle_t handle, Memory &memory, const DeviceRows &rows, cusparseFillMode_t fill,
           cusparseDiagType_t diagonal, cusparseOperation_t operation, double *x, double *y)
      : handle(handle), operation(operation), a(rows.describe()) {
    size_t room = 0;
    CHECK(cusparseSpMatSetAttribute(a, CUSPARSE_SPMAT_FILL_MODE, &fill, sizeof fill));
    CHECK(cusparseSpMatSetAttribute(a, CUSPARSE_SPMAT_DIAG_TYPE, &diagonal, sizeof diagonal));
    CHECK(cusparseCreateDnVec(&from, rows.n, x, CUDA_R_64F));
    CHECK(cusparseCreateDnVec(&to, rows.n, y, CUDA_R_64F));
    CHECK(cusparseSpSV_createDescr(&plan));
    CHECK(cusparseSpSV_bufferSize(handle, operation, &ONE, a, from, to, CUDA_R_64F, CUSPARSE_SPSV_ALG_DEFAULT, plan,
                                  &room));
    CHECK(cusparseSpSV_analysis(handle, operation, &ONE, a, from, to, CUDA_R_64F, CUSPARSE_SPSV_ALG_DEFAULT, plan,
                                memory.room<char>(room)));
  }

  Triangle(const Triangle &) = delete;
  ~Triangle() {
    cusparseSpSV_destroyDescr(plan);
    cusparseDestroyDnVec(from);
    cusparseDestroyDnVec(to);
    cusparseDestroySpMat(a);
  }

  cusparseStatus_t solve() const {
    return cusparseSpSV_solve(handle, operation, &ONE, a, from, to, CUDA_R_64F, CUSPARSE_SPSV_ALG_DEFAULT, plan);
  }
};

// Returns CUSPARSE_STATUS_ZERO_PIVOT if the factorization has a pivot that is zero, or not positive in ic0.
static cusparseStatus_t factorize_ilu0(cusparseHandle_t handle, Memory &memory, const DeviceRows &a) {
  cusparseMatDescr_t general;
  csrilu02Info_t info;
  int room = 0, row = 0;
  CHECK(cusparseCreateMatDescr(&general));
  CHECK(cusparseCreateCsrilu02Info(&info));
  CHECK(cusparseDcsrilu02_bufferSize(handle, a.n, a.entries, general, a.val, a.ptr, a.col, info, &room));
  void *buffer = memory.room<char>(room);
  CHECK(cusparseDcsrilu02_analysis(handle, a.n, a.entries, general, a.val, a.ptr, a.col, info,
                                   CUSPARSE_SOLVE_POLICY_USE_LEVEL, buffer));
  CHECK(cusparseDcsrilu02(handle, a.n, a.entries, general, a.val, a.ptr, a.col, info, CUSPARSE_SOLVE_POLICY_USE_LEVEL,
                          buffer));
  cusparseStatus_t status = cusparseXcsrilu02_zeroPivot(handle, info, &row);
  cusparseDestroyCsrilu02Info(info);
  cusparseDestroyMatDescr(general);
  return status;
}

static cusparseStatus_t factorize_ic0(cusparseHandle_t handle, Memory &memory, const DeviceRows &a) {
  cusparseMatDescr_t general;
  csric02Info_t info;
  int room = 0, row = 0;
  CHECK(cusparseCreateMatDescr(&general));
  CHECK(cusparseCreateCsric02Info(&info));
  CHECK(cusparseDcsric02_bufferSize(handle, a.n, a.entries, general, a.val, a.ptr, a.col, info, &room));
  void *buffer = memory.room<char>(room);
  CHECK(cusparseDcsric02_analysis(handle, a.n, a.entries, general, a.val, a.ptr, a.col, info,
                                  CUSPARSE_SOLVE_POLICY_USE_LEVEL, buffer));
  CHECK(cusparseDcsric02(handle, a.n, a.entries, general, a.val, a.ptr, a.col, info, CUSPARSE_SOLVE_POLICY_USE_LEVEL,
                         buffer));
  cusparseStatus_t status = cusparseXcsric02_zeroPivot(handle, info, &row);
  cusparseDestroyCsric02Info(info);
  cusparseDestroyMatDescr(general);
  return status;
}

// Returns the sum of the numbers of all threads of a block.
__device__ static double block_sum(double value) {
  __shared__ double sums[THREADS / 32];
  for (int step = 16; step; step /= 2) value += __shfl_xor_sync(~0u, value, step);
  __syncthreads();
  if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = value;
  __syncthreads();
  double sum = 0;
  for (int w = 0; w < THREADS / 32; w++) sum += sums[w];
  return sum;
}

// Inner products, as one number per block. Each block of the kernels that need the sum adds them up.
struct Sums {
  double *pq, *rr, *rz, *old_rz;
};

__device__ static double total(const double *parts) {
  double sum = 0;
  for (int k = threadIdx.x; k < BLOCKS; k += THREADS) sum += parts[k];
  return block_sum(sum);
}

__device__ static void store(double *parts, double value) {
  const double sum = block_sum(value);
  if (threadIdx.x == 0) parts[blockIdx.x] = sum;
}

#define EACH(i, n) int i = blockIdx.x * THREADS + threadIdx.x; i < n; i += BLOCKS * THREADS

// x = 0, r = b in the order of the rows, and no norms.
__global__ static void start(int n, const int *order, const double *b, double *x, double *r, int *count) {
  for (EACH(i, n)) {
    x[i] = 0;
    r[i] = b[order ? order[i] : i];
  }
  if (blockIdx.x == 0 && threadIdx.x == 0) *count = 0;
}

__global__ static void finish(int n, const int *order, const double *x, double *solution) {
  for (EACH(i, n)) solution[order ? order[i] : i] = x[i];
}

// p'q. The next two kernels need the previous r'z, which one of them may replace.
__global__ static void multiply_directions(int n, const double *p, const double *q, Sums sums) {
  double pq = 0;
  for (EACH(i, n)) pq += p[i] * q[i];
  store(sums.pq, pq);
  if (threadIdx.x == 0) sums.old_rz[blockIdx.x] = sums.rz[blockIdx.x];
}

// x += alpha p, r -= alpha q, r'r; with an inverse diagonal also z = D^-1 r and r'z.
__global__ static void descend(int n, double *x, double *r, const double *p, const double *q, const double *inverse,
                               double *z, Sums sums) {
  const double alpha = total(sums.old_rz) / total(sums.pq);
  double rr = 0, rz = 0;
  for (EACH(i, n)) {
    const double residual = r[i] - alpha * q[i];
    x[i] += alpha * p[i];
    r[i] = residual;
    rr += residual * residual;
    if (inverse) {
      const double scaled = inverse[i] * residual;
      z[i] = scaled;
      rz += scaled * residual;
    }
  }
  store(sums.rr, rr);
  if (inverse) store(sums.rz, rz);
}

__global__ static void multiply_residual(int n, const double *r, const double *z, Sums sums) {
  double rz = 0;
  for (EACH(i, n)) rz += r[i] * z[i];
  store(sums.rz, rz);
}

__global__ static void scale(int n, const double *inverse, const double *r, double *z) {
  for (EACH(i, n)) z[i] = inverse[i] * r[i];
}

// p = z + beta p. The host reads the norms.
__global__ static void advance(int n, double *p, const double *z, Sums sums, double *norms, int *count) {
  const double beta = total(sums.rz) / total(sums.old_rz);
  for (EACH(i, n)) p[i] = z[i] + beta * p[i];
  if (blockIdx.x == 0) {
    const double rr = total(sums.rr);
    if (threadIdx.x == 0) norms[(*count)++] = sqrt(rr);
  }
}

// The parts of a method such as "ilu0+colours".
struct Method {
  std::string name, preconditioner;
  bool colours, sell, launches;
  explicit Method(const std::string &name) : name(name), preconditioner(name.substr(0, name.find('+'))) {
    colours = has("colours");
    sell = has("sell");
    launches = has("launches");
    if (preconditioner != "jacobi" && preconditioner != "ilu0" && preconditioner != "ic0")
      fail("is not products, jacobi, ilu0 or ic0", name.c_str());
  }
  bool has(const char *suffix) const { return (name + "+").find("+" + std::string(suffix) + "+") != name.npos; }
};

class Cg {
  cusparseHandle_t handle;
  cudaStream_t stream;
  Memory memory;
  int n, *order = nullptr, *count;
  double *x, *r, *p, *q, *y, *z, *inverse = nullptr, *norms = nullptr;
  Sums sums;
  Product *product = nullptr;
  Triangle *lower = nullptr, *upper = nullptr;
  cudaGraphExec_t graph = nullptr;
  cudaEvent_t done[2];

  void factorize(const Rows &rows, const DeviceRows &a, const std::string &kind) {
    const auto plain = CUSPARSE_OPERATION_NON_TRANSPOSE;
    if (kind == "ilu0") {
      // The factors replace the entries of a copy.
      DeviceRows lu = a;
      lu.val = memory.room<double>(a.entries);
      CHECK(cudaMemcpyAsync(lu.val, a.val, sizeof(double) * a.entries, cudaMemcpyDeviceToDevice, stream));
      usable = factorize_ilu0(handle, memory, lu) == CUSPARSE_STATUS_SUCCESS;
      if (!usable) return;
      lower = new Triangle(handle, memory, lu, CUSPARSE_FILL_MODE_LOWER, CUSPARSE_DIAG_TYPE_UNIT, plain, r, y);
      upper = new Triangle(handle, memory, lu, CUSPARSE_FILL_MODE_UPPER, CUSPARSE_DIAG_TYPE_NON_UNIT, plain, y, z);
    } else if (kind == "ic0") {
      const DeviceRows l(memory, lower_triangle(rows));
      const auto fill = CUSPARSE_FILL_MODE_LOWER;
      const auto diagonal = CUSPARSE_DIAG_TYPE_NON_UNIT;
      usable = factorize_ic0(handle, memory, l) == CUSPARSE_STATUS_SUCCESS;
      if (!usable) return;
      lower = new Triangle(handle, memory, l, fill, diagonal, plain, r, y);
      upper = new Triangle(handle, memory, l, fill, diagonal, CUSPARSE_OPERATION_TRANSPOSE, y, z);
    } else {
      Numbers values(n, NAN);
      for (int i = 0; i < n; i++)
        for (int k = rows.ptr[i]; k < rows.ptr[i + 1]; k++)
          if (rows.col[k] == i) values[i] = 1 / rows.val[k];
      inverse = memory.copy(values);
    }
  }

  bool precondition() const {
    return lower->solve() == CUSPARSE_STATUS_SUCCESS && upper->solve() == CUSPARSE_STATUS_SUCCESS;
  }

  // Launches the kernels of an iteration.
  bool iterate() const {
    bool launched = product->run() == CUSPARSE_STATUS_SUCCESS;
    multiply_directions<<<BLOCKS, THREADS, 0, stream>>>(n, p, q, sums);
    descend<<<BLOCKS, THREADS, 0, stream>>>(n, x, r, p, q, inverse, z, sums);
    if (!inverse) {
      launched = launched && precondition();
      multiply_residual<<<BLOCKS, THREADS, 0, stream>>>(n, r, z, sums);
    }
    advance<<<BLOCKS, THREADS, 0, stream>>>(n, p, z, sums, norms, count);
    return launched && cudaPeekAtLastError() == cudaSuccess;
  }

  // Records an iteration as a graph. Without a graph, solves launch the kernels.
  void record() {
    cudaGraph_t recorded = nullptr;
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    const bool launched = iterate();
    const bool ended = cudaStreamEndCapture(stream, &recorded) == cudaSuccess;
    if (!launched || !ended || cudaGraphInstantiate(&graph, recorded, 0) != cudaSuccess) {
      graph = nullptr;
      std::fprintf(stderr, "cuSPARSE's calls cannot be recorded as a graph: %s\n",
                   cudaGetErrorString(cudaGetLastError()));
    }
    if (recorded) cudaGraphDestroy(recorded);
  }

 public:
  // Whether the factorization succeeded.
  bool usable = true;

  Cg(cusparseHandle_t handle, cudaStream_t stream, const Rows &given, const Method &method)
      : handle(handle), stream(stream), n(given.n()) {
    Rows coloured;
    if (method.colours) {
      const Indices rows = order_by_colours(given);
      coloured = permuted(given, rows);
      order = memory.copy(rows);
    }
    const Rows &rows = method.colours ? coloured : given;
    const DeviceRows a(memory, rows);
    for (double **v : {&x, &r, &p, &q, &y, &z}) *v = memory.room<double>(n);
    for (double **v : {&sums.pq, &sums.rr, &sums.rz, &sums.old_rz}) *v = memory.room<double>(BLOCKS);
    count = memory.room<int>(1);
    CHECK(cudaHostAlloc(&norms, sizeof(double) * (MOST_ITERATIONS + 1), cudaHostAllocMapped));
    for (cudaEvent_t &event : done) CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    product = method.sell ? new Product(handle, memory, rows, p, q)
                          : new Product(handle, memory, a, CUSPARSE_SPMV_CSR_ALG1, p, q);
    factorize(rows, a, method.preconditioner);
    if (usable && !method.launches) record();
    CHECK(cudaStreamSynchronize(stream));
  }

  Cg(const Cg &) = delete;
  ~Cg() {
    if (graph) cudaGraphExecDestroy(graph);
    delete product;
    delete lower;
    delete upper;
    for (cudaEvent_t event : done) cudaEventDestroy(event);
    cudaFreeHost(norms);
  }

  // Solves A x = b until |r| <= threshold. Returns the number of iterations. The host reads the norm of an iteration
  // while the device computes the next one, so the device computes one iteration more.
  int solve(const double *b, double threshold, double *solution) {
    start<<<BLOCKS, THREADS, 0, stream>>>(n, order, b, x, r, count);
    if (inverse) scale<<<BLOCKS, THREADS, 0, stream>>>(n, inverse, r, z);
    else if (!precondition()) fail("failed", "cusparseSpSV_solve");
    multiply_residual<<<BLOCKS, THREADS, 0, stream>>>(n, r, z, sums);
    CHECK(cudaMemcpyAsync(p, z, sizeof(double) * n, cudaMemcpyDeviceToDevice, stream));
    int iterations = 0;
    for (int k = 0; k <= MOST_ITERATIONS && !iterations; k++) {
      if (graph) CHECK(cudaGraphLaunch(graph, stream));
      else if (!iterate()) fail(cudaGetErrorString(cudaGetLastError()), "an iteration");
      CHECK(cudaEventRecord(done[k % 2], stream));
      if (k == 0) continue;
      CHECK(cudaEventSynchronize(done[(k - 1) % 2]));
      // Also ends at a norm that is not a number.
      if (!(norms[k - 1] > threshold) || k == MOST_ITERATIONS) iterations = k;
    }
    finish<<<BLOCKS, THREADS, 0, stream>>>(n, order, x, solution);
    CHECK(cudaStreamSynchronize(stream));
    return iterations;
  }
};

static void measure_cg(cusparseHandle_t handle, cudaStream_t stream, const Rows &a, const char *system,
                       double tolerance, const Method &method) {
  Memory memory;
  Numbers b = multiplied(a, Numbers(a.n(), 1.0)), x(a.n()), setup, solve;
  double *device_b = memory.copy(b), *device_x = memory.room<double>(a.n());
  const double threshold = tolerance * norm(b);
  int iterations = 0;
  for (int run = -1; run < RUNS; run++) {
    const double begin = now();
    Cg cg(handle, stream, a, method);
    const double ready = now();
    if (!cg.usable) {
      std::fprintf(stderr, "%s: the factorization has a pivot that is zero or, in ic0, not positive\n",
                   method.name.c_str());
      return;
    }
    iterations = cg.solve(device_b, threshold, device_x);
    if (run < 0) continue;
    setup.push_back(ready - begin);
    solve.push_back(now() - ready);
  }
  CHECK(cudaMemcpy(x.data(), device_x, sizeof(double) * a.n(), cudaMemcpyDeviceToHost));
  print_solve("cuSPARSE CG " + method.name, system, a, b, x, setup, solve, iterations);
}

// Returns the device's seconds per run, from several runs in a row.
static double seconds(cudaStream_t stream, int calls, const std::function<void()> &run) {
  cudaEvent_t from, to;
  float milliseconds = 0;
  CHECK(cudaEventCreate(&from));
  CHECK(cudaEventCreate(&to));
  CHECK(cudaEventRecord(from, stream));
  for (int k = 0; k < calls; k++) run();
  CHECK(cudaEventRecord(to, stream));
  CHECK(cudaEventSynchronize(to));
  CHECK(cudaEventElapsedTime(&milliseconds, from, to));
  cudaEventDestroy(from);
  cudaEventDestroy(to);
  return 1e-3 * milliseconds / calls;
}

// Returns bytes read and written per second by copies on the device.
static double copy_rate(cudaStream_t stream) {
  Memory memory;
  char *from = memory.room<char>(COPY_BYTES), *to = memory.room<char>(COPY_BYTES);
  Numbers times;
  CHECK(cudaMemset(from, 0, COPY_BYTES));
  for (int run = 0; run < ROUNDS; run++)
    times.push_back(seconds(stream, 10, [&] {
      CHECK(cudaMemcpyAsync(to, from, COPY_BYTES, cudaMemcpyDeviceToDevice, stream));
    }));
  return 2.0 * COPY_BYTES / median(times);
}

static void measure_product(cudaStream_t stream, const Rows &a, const char *format, double rate,
                            const Product &product, const double *device_y) {
  Numbers bound, right = multiplied(a, Numbers(a.n(), 1.0), &bound), y(a.n()), calls, rounds;
  const auto run = [&] { CHECK(product.run()); };
  for (int k = 0; k < 3; k++) run();
  CHECK(cudaStreamSynchronize(stream));
  for (int k = 0; k < CALLS; k++) {
    const double begin = now();
    run();
    CHECK(cudaStreamSynchronize(stream));
    calls.push_back(now() - begin);
  }
  for (int k = 0; k < ROUNDS; k++) rounds.push_back(seconds(stream, 10, run));
  CHECK(cudaMemcpy(y.data(), device_y, sizeof(double) * a.n(), cudaMemcpyDeviceToHost));
  for (int i = 0; i < a.n(); i++)
    if (!(std::fabs(y[i] - right[i]) <= bound[i])) fail("the product is wrong", format);
  const double time = median(rounds);
  std::printf("product,%s,%.6e\n", format, time);
  std::fflush(stdout);
  std::fprintf(stderr, "%-9s %12.4f %12.4f %12.5f %12.1f %12.1f\n", format, 1e3 * median(calls), 1e3 * time,
               1e9 * time / a.entries(), 1e-9 * product.bytes / time, 100 * product.bytes / time / rate);
}

static void measure_products(cusparseHandle_t handle, cudaStream_t stream, const Rows &a, const char *system) {
  const double rate = copy_rate(stream);
  std::fprintf(stderr, "%s: %d rows and %d entries; device copy %.1f GB/s\n", system, a.n(), a.entries(), 1e-9 * rate);
  std::fprintf(stderr, "format     ms per call  ms in a row ns per entry         GB/s  %% of copies\n");
  Memory memory;
  const DeviceRows rows(memory, a);
  double *x = memory.copy(Numbers(a.n(), 1.0)), *y = memory.room<double>(a.n());
  measure_product(stream, a, "csr alg1", rate, Product(handle, memory, rows, CUSPARSE_SPMV_CSR_ALG1, x, y), y);
  measure_product(stream, a, "csr alg2", rate, Product(handle, memory, rows, CUSPARSE_SPMV_CSR_ALG2, x, y), y);
  measure_product(stream, a, "sell", rate, Product(handle, memory, a, x, y), y);
}

int main(int count, char **words) {
  if (count < 4) fail("FILE TOLERANCE METHOD...", words[0]);
  const Rows a = read_rows(words[1]);
  const std::string system = system_of(words[1]);
  cusparseHandle_t handle;
  cudaStream_t stream;
  cudaDeviceProp card;
  int version = 0;
  CHECK(cudaGetDeviceProperties(&card, 0));
  CHECK(cudaStreamCreate(&stream));
  CHECK(cusparseCreate(&handle));
  CHECK(cusparseSetStream(handle, stream));
  CHECK(cusparseGetVersion(handle, &version));
  std::fprintf(stderr, "%s; cuSPARSE %d\n", card.name, version);
  for (int k = 3; k < count; k++) {
    if (!std::strcmp(words[k], "products")) measure_products(handle, stream, a, system.c_str());
    else measure_cg(handle, stream, a, system.c_str(), std::atof(words[2]), Method(words[k]));
  }
  return 0;
}
